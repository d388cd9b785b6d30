//! Reading a network, which should take 50 ms for 20 MB of graph: `cargo bench -p perf4sight-onnx`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perf4sight_onnx as onnx;
use std::hint::black_box;

/// A field of a protobuf message that holds bytes.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = body.len();
    while length > 0x7f {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [bytes.as_slice(), body].concat()
}

/// A tensor of a graph: its name, and its type with a symbolic batch of 3 x 8 x 8.
fn image(name: &str) -> Vec<u8> {
    let sizes = [3, 8, 8].map(|size| field(1, &[8, size]));
    let dims = [field(1, &field(2, b"batch"))].into_iter().chain(sizes).collect::<Vec<_>>().concat();
    let tensor = [vec![8, 1], field(2, &dims)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

fn note(key: &str, value: &str) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value.as_bytes())].concat()
}

/// What PyTorch's default exporter notes at an operation, in its own words and about its lengths.
fn notes(index: usize, last: usize) -> Vec<Vec<u8>> {
    let scope = format!(
        "torchvision.models.swin_transformer.SwinTransformer/features.{index}: torch.nn.modules.activation.ReLU"
    );
    let trace = "File \"/usr/lib/python3/dist-packages/torchvision/models/swin_transformer.py\", line 608, in forward\n  x = self.features(x)\n";
    let operation = format!(
        "%relu_{index} : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%relu_{last},), kwargs = {{}})"
    );
    vec![
        note("namespace", &scope),
        note("pkg.torch.onnx.class_hierarchy", &scope),
        note("pkg.torch.onnx.fx_node", &operation),
        note("pkg.torch.onnx.name_scopes", &format!("['', 'features', 'features.{index}', 'relu_{index}']")),
        // Nodes with their notes are about as long as those of swin_t, 822 in 1,199,322 bytes.
        note("pkg.torch.onnx.stack_trace", &trace.repeat(7)),
    ]
}

/// A chain of so many operations.
fn chain(nodes: usize) -> Vec<u8> {
    let mut graph = field(11, &image("x"));
    let mut last = "x".to_string();
    for index in 0..nodes {
        let name = format!("features.{index}.activation");
        let operator: &[u8] = if index % 2 == 0 { b"Relu" } else { b"Sigmoid" };
        let fields = [(1, last.as_bytes()), (2, name.as_bytes()), (3, name.as_bytes()), (4, operator)];
        let answer = notes(index, index.saturating_sub(1)).into_iter().map(|note| field(9, &note));
        let node: Vec<Vec<u8>> = fields.into_iter().map(|(number, body)| field(number, body)).chain(answer).collect();
        graph.extend(field(1, &node.concat()));
        last = name;
    }
    graph.extend(field(12, &image(&last)));
    [vec![8, 8], field(7, &graph), field(8, &[16, 17])].concat()
}

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.sample_size(20);
    // As many as 20 MB hold, and as many as no network has.
    for nodes in [13_700, 50_000] {
        let bytes = chain(nodes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("{nodes} nodes, {:.1} MB", bytes.len() as f64 / 1e6), |bench| {
            bench.iter(|| onnx::from_bytes("chain", black_box(&bytes)).expect("it is a network"));
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
