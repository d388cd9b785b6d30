//! Models of plans in stages against measured plans that were left out of the fit (`tests/sailor/README.md`).

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_base::error::Result;
use perf4sight_base::stats;
use perf4sight_optimize::staged::{
    KnownCluster, LayerTimes, MeasuredStagedPlan, NetworkShape, NodeLinks, StagedModel, read_staged_plans,
};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sailor").join(name)
}

fn plans() -> Result<Vec<MeasuredStagedPlan>> {
    read_staged_plans(&file("plans.json"))
}

fn cluster() -> Result<KnownCluster> {
    let mut layers = LayerTimes::default();
    layers.add(&file("layers_OPT-350_GH-96.json"))?;
    // OPT-350M as Hugging Face publishes it, its vocabulary of 50,265 padded by the tensor degree.
    let shape = NetworkShape { hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50_272 };
    Ok(KnownCluster { shape, layers, links: NodeLinks::read(&file("network_coefficients.json"))? })
}

/// Sailor's own simulator: 6.0 % for steps and 5.3 % for memory in the median.
#[test]
fn a_plan_left_out_is_predicted() -> Result<()> {
    let plans = plans()?;
    let (mut steps, mut peaks, mut held) = (Vec::new(), Vec::new(), 0);
    for (place, left_out) in plans.iter().enumerate() {
        let mut others = plans.clone();
        others.remove(place);
        let predicted = StagedModel::fit(&others, cluster()?)?.predict(&left_out.plan)?;
        let (Some(step), Some(peak), Some(expected)) = (left_out.step_s, left_out.peak_bytes, predicted.peak_bytes)
        else {
            panic!("{} was not measured", left_out.plan.name);
        };
        steps.push(100.0 * (predicted.step_s.value / step - 1.0).abs());
        peaks.push(100.0 * (expected.value / peak - 1.0).abs());
        held += usize::from((predicted.step_s.interval.0..=predicted.step_s.interval.1).contains(&step));
    }
    assert!(stats::median(&steps) <= 4.0, "steps: {steps:?}");
    assert!(stats::median(&peaks) <= 3.0, "peaks: {peaks:?}");
    assert!(held >= 12, "{held} of {} within their interval: {steps:?}", plans.len());
    Ok(())
}

#[test]
fn gpus_and_stages_that_were_never_measured_are_named() -> Result<()> {
    let plans = plans()?;
    let few: Vec<MeasuredStagedPlan> = plans.iter().filter(|plan| plan.plan.stages.len() < 4).cloned().collect();
    let model = StagedModel::fit(&few, cluster()?)?;
    for plan in plans.iter().filter(|plan| plan.plan.stages.len() == 4) {
        assert_eq!(model.predict(&plan.plan)?.unmeasured, ["4 stages"]);
    }
    let mut foreign = plans[0].plan.clone();
    foreign.stages[0].replicas[0].gpu = "GH-97".to_owned();
    let Err(error) = model.predict(&foreign) else { panic!("a GPU without times of layers is predicted") };
    assert!(error.to_string().contains("GH-96"), "{error}");
    Ok(())
}

/// Of plans whose micro-batches were never measured, or with fewer GPUs than any measured one, steps and memory are within their intervals.
#[test]
fn intervals_of_other_shares_of_work_hold_them() -> Result<()> {
    let all = plans()?;
    let gpus = |one: &&MeasuredStagedPlan| one.plan.tensor_degrees().sum::<u64>();
    let of_eight: Vec<MeasuredStagedPlan> = all.iter().filter(|one| one.plan.micro_batch == 8).cloned().collect();
    let large: Vec<MeasuredStagedPlan> = all.iter().filter(|one| gpus(one) >= 32).cloned().collect();
    for (fitted, named) in [(of_eight, "micro-batches of"), (large, "as few GPUs as")] {
        let model = StagedModel::fit(&fitted, cluster()?)?;
        for other in all.iter().filter(|one| !fitted.contains(one)) {
            let predicted = model.predict(&other.plan)?;
            assert!(predicted.unmeasured.iter().any(|one| one.starts_with(named)), "{:?}", predicted.unmeasured);
            let (low, high) = predicted.step_s.interval;
            assert!(other.step_s.is_some_and(|step| low <= step && step <= high), "{} {low} {high}", other.plan.name);
            let most = predicted.peak_bytes.map_or(0.0, |peak| peak.interval.1);
            assert!(other.peak_bytes.is_some_and(|peak| peak <= most), "{} {most}", other.plan.name);
        }
    }
    Ok(())
}

/// Milliseconds as seconds, megabytes as bytes: nothing else would show it, for all factors of the model move with them.
#[test]
fn measurements_in_other_units_are_refused() -> Result<()> {
    let refusal = |change: fn(&mut MeasuredStagedPlan)| -> Result<String> {
        let mut plans = plans()?;
        plans.iter_mut().for_each(change);
        Ok(StagedModel::fit(&plans, cluster()?).err().map(|error| error.to_string()).unwrap_or_default())
    };
    let error = refusal(|plan| plan.step_s = plan.step_s.map(|seconds| 1e3 * seconds))?;
    assert!(error.contains("seconds (real)"), "{error}");
    let error = refusal(|plan| plan.peak_bytes = plan.peak_bytes.map(|bytes| bytes / 1048576.0))?;
    assert!(error.contains("bytes (max_mem)"), "{error}");
    Ok(())
}

/// Layers have 12 h^2 weights: with twice the width, 20 bytes a weight become 5 to 10. With twice the global batch in all plans, layers take half
/// of the times that were given. Both are far outside of what is usual, and the errors of plans left out do not show them.
#[test]
fn what_is_wrong_in_all_plans_shows() -> Result<()> {
    assert_eq!(StagedModel::fit(&plans()?, cluster()?)?.unusual(), Vec::<String>::new());
    let wide = cluster()?;
    let wide = KnownCluster { shape: NetworkShape { hidden: 2 * wide.shape.hidden, ..wide.shape }, ..wide };
    let unusual = StagedModel::fit(&plans()?, wide)?.unusual();
    assert!(unusual.len() == 1 && unusual[0].contains("bytes a weight, where 20 is usual"), "{unusual:?}");
    let mut doubled = plans()?;
    doubled.iter_mut().for_each(|measured| measured.plan.global_batch *= 2);
    let unusual = StagedModel::fit(&doubled, cluster()?)?.unusual();
    assert!(unusual.len() == 1 && unusual[0].contains("of the times of layers"), "{unusual:?}");
    Ok(())
}

/// Tensor degree 4 divides 16 heads, and not 6.
#[test]
fn heads_that_plans_cannot_divide_are_refused() -> Result<()> {
    let cluster = cluster()?;
    let cluster = KnownCluster { shape: NetworkShape { heads: 6, ..cluster.shape }, ..cluster };
    let Err(error) = StagedModel::fit(&plans()?, cluster) else { panic!("6 heads are divided by 4") };
    assert!(error.to_string().contains("6 heads cannot be divided by tensor degree 4"), "{error}");
    Ok(())
}

/// A measurement whose name is misspelled is none that is missing; one of the fit says nothing of those that are.
#[test]
fn measurements_that_are_misspelled_or_missing_are_told() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.json");
    let text = std::fs::read_to_string(self::file("plans.json")).unwrap();
    for (name, wrong) in [("real", "rael"), ("max_mem", "maxmem")] {
        std::fs::write(&file, text.replacen(&format!("\"{name}\""), &format!("\"{wrong}\""), 1)).unwrap();
        let error = read_staged_plans(&file).unwrap_err().to_string();
        assert!(error.contains(&format!("there is no {name}, but \"{wrong}\"")), "{error}");
    }
    std::fs::write(&file, text.replacen("\"real\"", "\"real\": 1.0, \"real\"", 1)).unwrap();
    let error = read_staged_plans(&file).unwrap_err().to_string();
    assert!(error.contains("plan 1: this is no plan: duplicate field `real`"), "{error}");
    let mut plans = plans()?;
    let step = plans[0].step_s.take();
    let model = StagedModel::fit(&plans, cluster()?)?;
    plans[0].step_s = step;
    assert_eq!([0, 1].map(|plan| model.are_fitted(&plans[plan])), [[false, true], [true, true]]);
    Ok(())
}

/// Of the first plan: a layer that two stages have, and a node of more GPUs than the degree.
#[test]
fn plans_that_contradict_themselves_are_refused() {
    let text = std::fs::read_to_string(file("plans.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = all.as_array().or_else(|| all.as_object()?.values().find_map(serde_json::Value::as_array)).unwrap();
    let refusal = |pointer: &str, value: serde_json::Value| {
        let mut plan = all[0].clone();
        *plan.pointer_mut(pointer).unwrap() = value;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plans.json");
        std::fs::write(&path, serde_json::Value::from(vec![plan]).to_string()).unwrap();
        read_staged_plans(&path).unwrap_err().to_string()
    };
    let layer = refusal("/pipeline_list/0/layers_per_stage/0/0", 1.into());
    assert!(layer.contains("a layer is in no stage or in several"), "{layer}");
    let gpus = refusal("/pipeline_list/0/tmp_per_stage/0/0/0/0/1", 8.into());
    assert!(gpus.contains("another number of GPUs than its degree"), "{gpus}");
}

/// OPT-350M has 24 layers between its embedding (0) and its head (25). A plan without the last of them is shorter, and would win; so would all of a file.
#[test]
fn plans_that_lack_the_last_layers_are_refused() -> Result<()> {
    let without_last = |measured: &MeasuredStagedPlan, count: usize| {
        let mut short = measured.clone();
        let layers = &mut short.plan.stages.last_mut().unwrap().layers;
        layers.truncate(layers.len() - count);
        short
    };
    let all = plans()?;
    let expected = format!("{}: the last of its layers is 20, that of the network 25", all[2].plan.name);
    let short = without_last(&all[2], 5);
    let model = StagedModel::fit(&all, cluster()?)?;
    let error = model.predict(&short.plan).unwrap_err().to_string();
    assert!(error.contains(&expected), "{error}");
    // Nor are they fitted, where memory alone was measured of them.
    let mut some = all.clone();
    some[2] = MeasuredStagedPlan { step_s: None, ..short };
    let error = StagedModel::fit(&some, cluster()?).unwrap_err().to_string();
    assert!(error.contains(&expected), "{error}");
    let shorter: Vec<MeasuredStagedPlan> = all.iter().map(|plan| without_last(plan, 1)).collect();
    let error = StagedModel::fit(&shorter, cluster()?).unwrap_err().to_string();
    assert!(error.contains("the last of its layers is 24, that of the network 25"), "{error}");
    Ok(())
}
