//! What steps of one network have in common, whatever changes its weights, in how many passes and what of it runs again: the rule of every
//! operation, who reads whom, who needs gradients.

use super::gradient_layouts::gradient_layouts;
use super::layouts::layouts;
use super::operation::Operation;
use super::pass::Pass;
use super::plan::Plan;
use super::rule::{Move, Rule};
use super::rules::rule;
use super::set_up::SetUp;
use super::updates::Updates;
use perf4sight_base::remembered::Remembered;
use perf4sight_network::{Network, NodeId, Numbers, Trained, Trainings};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Checkpoint, Step};
use std::sync::Arc;

/// A network as some steps train it, on a device.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub trained: Arc<Trained<'a>>,
    /// Per node, what it computes with.
    pub numbers: Vec<Numbers>,
    /// Per node.
    pub rules: Vec<Rule>,
    /// For every weight of a node, how many nodes give it a gradient: those it is shared with too.
    pub users: Vec<Vec<usize>>,
    /// Per node, whether training changes its weight and its bias.
    pub learned: Vec<[bool; 2]>,
    /// How many times a node's result is read in forward, the network's results once more.
    pub reads: Vec<usize>,
    /// Per node, whether backward needs something of its forward.
    pub kept: Vec<bool>,
}

/// All of one network on one device.
#[derive(Debug)]
pub(super) struct Grounds<'a> {
    platform: &'a Platform,
    trainings: Trainings<'a>,
    known: Remembered<(Step, u64), Ground<'a>>,
    /// By the number of samples, as what follows.
    set_ups: Remembered<(Step, u64), SetUp>,
    passes: Remembered<(Step, u64), Pass>,
    updates: Remembered<(Step, u64), Updates>,
}

/// What steps consist of, each recorded once for all that have it in common.
pub(super) struct Recorded {
    pub set_up: Arc<SetUp>,
    pub pass: Arc<Pass>,
    pub updates: Arc<Updates>,
}

impl<'a> Grounds<'a> {
    /// None of which is known yet.
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        Grounds {
            platform,
            trainings: Trainings::new(network),
            known: Remembered::default(),
            set_ups: Remembered::default(),
            passes: Remembered::default(),
            updates: Remembered::default(),
        }
    }

    /// What a step stands on with as many samples as `batch`, or with any larger number of them where there is more than one.
    pub fn of(&self, step: Step, batch: u64) -> Arc<Ground<'a>> {
        let ruling = ruling(step);
        let ground = || Ground::new(self.trainings.of(step.trainable), ruling, self.platform, batch);
        self.known.of((ruling, batch), ground)
    }

    /// What a step consists of, for as many samples as `batch`, or more.
    pub fn recorded(&self, plan: &Plan, batch: u64) -> Recorded {
        let Step { optimizer, accumulate, checkpoint, loss, .. } = plan.step;
        let ruling = ruling(plan.step);
        let set_up = self.set_ups.of((Step { loss, ..ruling }, batch), || SetUp::new(plan));
        // What becomes of gradients and weights is no part of a pass; that there are several shows in each.
        let passing = Step { accumulate: accumulate.min(SEVERAL_PASSES), checkpoint, loss, ..ruling };
        let pass = self.passes.of((passing, batch), || Pass::new(plan, &set_up));
        let updates = self.updates.of((Step { optimizer, ..ruling }, batch), || Updates::new(plan));
        Recorded { set_up, pass, updates }
    }

    /// The nodes behind which a step cuts the network.
    pub fn cuts(&self, checkpoint: Checkpoint) -> Arc<Vec<NodeId>> {
        self.trainings.cuts(checkpoint)
    }
}

/// As many passes as tell that there are several.
const SEVERAL_PASSES: Accumulate = Accumulate::new(2).expect("two are some");

/// A step as far as rules of operations depend on it: all else is as published.
fn ruling(Step { stage, precision, trainable, frozen_normalisation, .. }: Step) -> Step {
    Step { precision, trainable, frozen_normalisation, ..Step::published(stage) }
}

impl<'a> Ground<'a> {
    fn new(trained: Arc<Trained<'a>>, step: Step, platform: &'a Platform, batch: u64) -> Self {
        let Trained { network, gradients: tracked, in_place, .. } = &*trained;
        let layouts = layouts(network, step, tracked, batch);
        let gradients = gradient_layouts(network, &layouts);
        let numbers = network.numbers(step.precision, platform.lists());
        let operations = network.iter().zip(in_place).map(|((id, node), &in_place)| Operation {
            network,
            id,
            node,
            platform,
            step,
            in_place,
            tracked,
            layouts: &layouts,
            gradients: &gradients,
            numbers: &numbers,
        });
        let rules: Vec<Rule> = operations.map(rule).collect();
        let users = users(network, &rules);
        let learned = network.nodes().iter().map(|node| network.learned(node)).collect();
        let kept = network.nodes().iter().zip(tracked).map(|(node, tracked)| network.is_kept(node, *tracked)).collect();
        Ground { numbers, rules, users, learned, reads: network.uses(), kept, trained }
    }
}

fn users(network: &Network, rules: &[Rule]) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = rules.iter().map(|rule| vec![0; rule.weights.len()]).collect();
    for ((id, node), rule) in network.iter().zip(rules) {
        let weights = &mut users[node.shares.unwrap_or(id).index()];
        for step in &rule.backward {
            if let Move::WeightGradient(index) | Move::PassWeightGradient(index) = step
                && let Some(count) = weights.get_mut(*index)
            {
                *count += 1;
            }
        }
    }
    users
}
