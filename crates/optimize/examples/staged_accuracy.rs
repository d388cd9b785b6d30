//! How many of Sailor's plans of OPT-350M are within their intervals, by random splits: `staged_accuracy PLANS.json LINKS.json
//! LAYERS.json ...`.

use perf4sight_base::error::Result;
use perf4sight_optimize::staged::{
    KnownCluster, LayerTimes, MeasuredStagedPlan, NetworkShape, NodeLinks, PlanEstimate, StagedModel, read_staged_plans,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;

/// Seeds of random splits; how intervals depend on the number of plans was chosen on others (1 to 80).
const SEEDS: std::ops::RangeInclusive<u64> = 101..=160;
/// As Hugging Face publishes it, its vocabulary of 50,265 padded by the tensor degree.
const OPT_350M: NetworkShape = NetworkShape { hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50_272 };
/// Measured plans of a fit.
const COUNTS: [usize; 7] = [4, 5, 6, 7, 8, 10, 12];

/// Predictions of a quantity.
#[derive(Default)]
struct Score {
    predicted: usize,
    held: usize,
    /// The sum of the logarithms of upper bounds over values.
    width: f64,
}

impl Score {
    fn add(&mut self, estimate: PlanEstimate, truth: f64) {
        let (low, high) = estimate.interval;
        self.predicted += 1;
        self.held += usize::from((low..=high).contains(&truth));
        self.width += (high / estimate.value).ln();
    }

    fn words(&self) -> String {
        let count = self.predicted.max(1) as f64;
        let [held, width] = [self.held as f64 / count, (self.width / count).exp_m1()].map(|share| 100.0 * share);
        format!("{held:5.1} % hold ± {width:5.1} %")
    }
}

/// Predictions of steps and of memory: of plans like measured ones, and of those that are marked as having what none has.
#[derive(Default)]
struct Scores {
    like: [Score; 2],
    marked: [Score; 2],
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [plans, links, layers @ ..] = arguments.as_slice() else {
        println!("staged_accuracy PLANS.json LINKS.json LAYERS.json ...");
        return Ok(());
    };
    let plans = read_staged_plans(Path::new(plans))?;
    let mut times = LayerTimes::default();
    layers.iter().try_for_each(|file| times.add(Path::new(file)))?;
    let cluster = KnownCluster { shape: OPT_350M, layers: times, links: NodeLinks::read(Path::new(links))? };
    for count in COUNTS.into_iter().filter(|count| *count < plans.len()) {
        let mut scores = Scores::default();
        SEEDS.into_iter().try_for_each(|seed| split(&plans, &cluster, count, seed, &mut scores))?;
        let [like, marked] = [scores.like, scores.marked].map(|[steps, peaks]| [steps.words(), peaks.words()]);
        println!("{count:3} plans: steps {}, memory {}; marked: {}, {}", like[0], like[1], marked[0], marked[1]);
    }
    Ok(())
}

/// Fits some plans and predicts the others.
fn split(
    plans: &[MeasuredStagedPlan],
    cluster: &KnownCluster,
    count: usize,
    seed: u64,
    scores: &mut Scores,
) -> Result<()> {
    let mut plans = plans.to_vec();
    plans.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let others = plans.split_off(count);
    let model = StagedModel::fit(&plans, cluster.clone())?;
    for other in others {
        let predicted = model.predict(&other.plan)?;
        let [steps, peaks] = if predicted.unmeasured.is_empty() { &mut scores.like } else { &mut scores.marked };
        other.step_s.into_iter().for_each(|truth| steps.add(predicted.step_s, truth));
        let peak = predicted.peak_bytes.zip(other.peak_bytes);
        peak.into_iter().for_each(|(estimate, truth)| peaks.add(estimate, truth));
    }
    Ok(())
}
