//! The optimizer's update of all weights in one kernel: `fused=True`.

use perf4sight_base::error::Result;
use perf4sight_replay::what_if::{Scenario, StepChange, parse};

/// How many times the share that is left may be what traffic says: this holds all that `benches/fused_update.py` measured on one core (Adam and AdamW 0.17
/// to 0.33 of 0.39 and 0.35, SGD 0.53 to 0.74 of 0.63, Adagrad 0.25 to 0.42 of 0.45) and on two beside other programs (0.23 to 0.47, 0.19 to 0.83, 0.38 to 0.69).
const OFF: [f64; 2] = [0.3, 1.6];

/// An update of which this share of its time is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedUpdate(pub f64);

impl StepChange for FusedUpdate {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        parse(&format!("operations 'Optimizer.step*' x {:.6}", self.0))?.apply(scenario)
    }

    fn assumption(&self) -> Option<String> {
        let [least, most] = OFF;
        Some(format!(
            "the update takes {:.0} % of its time, by what it reads and writes; the interval reaches from {least} to {most} times as long, as measured on CPUs; none was measured on GPUs",
            100.0 * self.0
        ))
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        OFF.map(|off| Box::new(FusedUpdate((off * self.0).min(1.0))) as Box<dyn StepChange>).into()
    }
}
