//! GPUs as a worker reports them: who else uses one, and what is asked of it. The libtorch worker's own are in its crate.

use crate::fixtures::Scene;
use crate::workers::scripted;
use perf4sight_cost::records::ProfileProvenance;

const GPU: &str = r#"{"protocol":2,"software":{"torch":"2.11.0"},"places":{"cuda:0":{"gpu":"a GPU"}},"layers":false,"gpus":{"cuda:0":{"name":"a GPU","memory":8589934592,"unified":false}}}"#;

#[test]
fn a_gpu_that_somebody_else_computes_on_is_refused_with_who_it_is() {
    let busy = GPU.replace("\"unified\":false", r#""unified":false,"others":["pid 4711 (python3), 4321 MiB"]"#);
    let scene = scripted("cuda", &busy, "");
    scene
        .run("--config-file config.ini --check")
        .fails(5)
        .says("something else computes on cuda:0: pid 4711 (python3), 4321 MiB")
        .says("set gpu_id to another GPU");
    assert!(!scene.path("heard").exists());
}

#[test]
fn faster_arithmetic_is_asked_for_and_recorded() {
    let scene = scripted("cuda", GPU, "mem_limit = 2048");
    scene.run("--config-file config.ini").succeeds();
    let setting =
        |scene: &Scene| ProfileProvenance::load(&scene.path("profiling_csvs/cuda/imagenet")).unwrap().unwrap().setting;
    assert_eq!((setting(&scene)["tf32"].as_str(), setting(&scene)["cudnn_benchmark"].as_str()), ("off", "off"));
    assert!(scene.read("heard").contains(r#""tf32":false,"cudnn_benchmark":false"#), "{}", scene.read("heard"));
    assert!(scene.read("heard").contains(r#""mem_limit":2147483648"#), "{}", scene.read("heard"));
    // Rows with and without it are not of one profile.
    let again = scene.run("--config-file config.ini --set profile.tf32=True --set profile.bs=[2,4]");
    again.fails(4).says("tf32 was off, is on");
    let other = scripted("cuda", GPU, "tf32 = True\ncudnn_benchmark = True");
    other.run("--config-file config.ini").succeeds();
    assert_eq!((setting(&other)["tf32"].as_str(), setting(&other)["cudnn_benchmark"].as_str()), ("on", "on"));
    assert!(other.read("heard").contains(r#""tf32":true,"cudnn_benchmark":true"#), "{}", other.read("heard"));
}
