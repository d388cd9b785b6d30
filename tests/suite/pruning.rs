//! Pruning.

use crate::fixtures;
use perf4sight::network::{Conv, Network, NetworkBuilder, Op, Window, zoo};
use perf4sight::pruning::{Goal, Pruner, Ranking};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn published(name: &str) -> Network {
    let network = zoo::build(name, zoo::Dataset::Imagenet).unwrap();
    if name != "mobilenetv2" { return network }
    let mut b = NetworkBuilder::new(name, network.input_shape().clone());
    let mut ids = vec![b.input()];
    for (id, n) in network.iter().skip(1) {
        let _ = id;
        let inputs: Vec<_> = n.inputs.iter().map(|i| ids[i.index()]).collect();
        let mut new = b.add(&n.name, n.op.clone(), &inputs).unwrap();
        if n.name == "features.0.2" {
            new = b.add("e", Op::Conv(Conv { out_channels: 32, window: Window::square(1, 1, 0), groups: 1, bias: false }), &[new]).unwrap();
            new = b.add("ebn", Op::BatchNorm, &[new]).unwrap();
            new = b.add("er", n.op.clone(), &[new]).unwrap();
        }
        ids.push(new);
    }
    let out = ids[network.output().index()];
    b.finish(out)
}

#[test]
fn golden() {
    let path = std::env::var("CSV").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let mut chi=std::collections::BTreeMap::<(String,bool),(f64,f64,f64,f64,f64)>::new(); let mut last: Option<Network> = None;
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let n = |i: usize| f[i].parse::<f64>().unwrap();
        if last.as_ref().is_none_or(|l| l.name() != f[0]) { last = Some(published(f[0])); }
        let network = last.as_ref().unwrap();
        let pruner = Pruner::new(network);
        let (mut macs, mut acts, mut params) = (0.0, 0.0, 0.0); let mut sq=0.0f64;
        let fc: u64 = network.nodes().iter().filter(|n| matches!(n.op, Op::Linear(_))).map(|n| network.macs_of(n)).sum();
        let _ = fc;
        for seed in 0..200 {
            let mut g = Xoshiro256PlusPlus::seed_from_u64(seed);
            let r = Ranking::random(&pruner, &mut g);
            let p = pruner.prune(&r, &Goal::Parameters(n(3) as u64, n(1)/100.0)).unwrap();
            let conv: u64 = p.network.nodes().iter().filter(|n| matches!(n.op, Op::Conv(_))).map(|n| p.network.macs_of(n)).sum();
            sq += (conv as f64).powi(2)/200.0; macs += conv as f64 / 200.0;
            acts += p.network.activations() as f64 / 200.0;
            params += p.network.parameters() as f64 / 200.0;
        }
        let (dm, da) = (macs / n(5) * 100.0 - 100.0, acts / n(7) * 100.0 - 100.0);
        let (am, aa) = ((200.0 * n(6) / n(2).sqrt() / n(5)).max(4.0), (200.0 * n(8) / n(2).sqrt() / n(7)).max(4.0));
        let z=|d:f64,sd:f64,m:f64| d/(100.0*sd/n(2).sqrt()/m);
 if f[1]!="0" {let e=chi.entry((f[0].to_string(), f[1].parse::<u32>().unwrap()>70)).or_insert((0.0,0.0,0.0,0.0,0.0)); let (zm,za)=(z(dm,n(6),n(5)),z(da,n(8),n(7))); e.0+=zm*zm; e.1+=za*za; e.2+=1.0; e.3+=zm; e.4+=za; }
        if std::env::var("V").is_ok() {println!("z {:+.2} sd {:.1} pub {:.1} {:12} {:>3} params {:+6.2}%  macs {dm:+6.2} ({am:.2}) {} acts {da:+6.2} ({aa:.2}) {}", dm/((sq-macs*macs).sqrt()/macs*100.0)*5f64.sqrt(), (sq-macs*macs).sqrt()/macs*100.0, n(6)/n(5)*100.0, f[0], f[1], params / n(3) * 100.0 - 100.0,
            if dm.abs() > am { "XX" } else { "  " }, if da.abs() > aa { "XX" } else { "  " });}
    }
    for (k,v) in chi { println!("{k:?} macs chi {:.2} acts {:.2}  mean z {:+.2} {:+.2}", v.0/v.2, v.1/v.2, v.3/v.2, v.4/v.2); }
}
