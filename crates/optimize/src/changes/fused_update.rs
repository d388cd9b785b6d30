//! The optimizer's update of all weights in one kernel: `fused=True`.

use perf4sight_base::error::Result;
use perf4sight_replay::what_if::{Change, Scenario, parse};

/// By how much the share that is left may be smaller and larger: of Adam's and AdamW's 0.35 and 0.32, SGD's 0.63 and Adagrad's 0.45 by traffic 0.17 to
/// 0.33, 0.53 to 0.74 and 0.25 to 0.42 were measured on one core, up to 0.47, 0.83 and 0.69 on two that others used (`benches/fused_update.py`).
const OFF: [f64; 2] = [0.5, 1.5];

/// An update of which this share of its time is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedUpdate(pub f64);

impl Change for FusedUpdate {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        parse(&format!("operations 'Optimizer.step*' x {:.6}", self.0))?.apply(scenario)
    }

    fn assumption(&self) -> Option<String> {
        Some(
            "an update in one kernel takes what it reads and writes less, by half to one and a half of that".to_owned(),
        )
    }

    fn bounds(&self) -> Vec<Box<dyn Change>> {
        OFF.map(|off| Box::new(FusedUpdate((off * self.0).min(1.0))) as Box<dyn Change>).into()
    }
}
