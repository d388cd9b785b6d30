//! Tests of completed work, the order of a sweep, predictions from other rows, and repetitions within a budget.

use super::expected::unexpected_rows;
use super::{
    Configuration, ConfigurationStatus, GridPlan, MeasurementLedger, MeasurementPace, Plan, PlanDecision, PlanEnding,
    Repetitions, Sweep, Test, regroup,
};
use crate::records::{MeasurementOutcome, RowReading, RowRecord, Variant};
use perf4sight_base::units::Milliseconds;
use perf4sight_step::workload::{Stage, Step, Variable, Workload};

fn sweep() -> Sweep {
    Sweep {
        variables: vec![Variable::Memory, Variable::Latency],
        batches: vec![8, 2],
        steps: vec![Step::published(Stage::Training), Step::published(Stage::Inference)],
        variants: vec![Variant::new("net", 30), Variant::new("net", 0)],
    }
}

#[test]
fn the_published_order_goes_through_variants_first() {
    let tests = sweep().tests();
    let shown: Vec<String> = tests.iter().take(9).map(Test::to_string).collect();
    // variable > batch size > stage > network file, each in the order it was given.
    let expected = [
        "net_30 training bs 8 memory",
        "net_0 training bs 8 memory",
        "net_30 inference bs 8 memory",
        "net_0 inference bs 8 memory",
        "net_30 training bs 2 memory",
        "net_0 training bs 2 memory",
        "net_30 inference bs 2 memory",
        "net_0 inference bs 2 memory",
        "net_30 training bs 8 latency",
    ];
    assert_eq!(shown, expected);
    assert_eq!(tests.len(), 2 * 2 * 2 * 2);
}

#[test]
fn running_goes_up_the_batch_sizes_of_one_variant_and_stage() {
    let mut tests = sweep().tests();
    tests.extend(sweep().tests());
    let odd = Test { variable: Variable::Latency, ..tests[0].clone() };
    tests.push(Test { workload: Workload { batch: 4, ..odd.workload }, ..odd });
    let configurations = regroup(&tests);
    let shown: Vec<String> = configurations
        .iter()
        .map(|c| format!("{} {} {} {}", c.variant, c.workload.step.stage, c.workload.batch, c.variables.len()))
        .collect();
    let expected = [
        "net_30 training 2 2",
        "net_30 training 4 1",
        "net_30 training 8 2",
        "net_30 inference 2 2",
        "net_30 inference 8 2",
        "net_0 training 2 2",
        "net_0 training 8 2",
        "net_0 inference 2 2",
        "net_0 inference 8 2",
    ];
    assert_eq!(shown, expected);
}

const BOTH: [Variable; 2] = [Variable::Latency, Variable::Memory];

fn configuration(batch: u64) -> Configuration {
    let workload = Workload::published(Stage::Training, batch);
    Configuration { variant: Variant::new("net", 30), workload, variables: BOTH.to_vec(), round: 1 }
}

fn row(batch: u64, outcome: MeasurementOutcome) -> RowRecord {
    let Configuration { variant, workload, .. } = configuration(batch);
    RowRecord::new(variant, workload, outcome, RowReading::Latency(None))
}

#[test]
fn what_has_a_row_is_not_measured_again() {
    let ledger = MeasurementLedger::from_records(&[row(8, MeasurementOutcome::Measured)]);
    assert_eq!(ledger.status(&configuration(8)), ConfigurationStatus::Measure(vec![Variable::Memory]));
    assert_eq!(ledger.status(&configuration(16)), ConfigurationStatus::Measure(BOTH.to_vec()));
    let again = Configuration { round: 2, ..configuration(8) };
    assert_eq!(ledger.status(&again), ConfigurationStatus::Measure(BOTH.to_vec()), "a second time");
    let latency_only = Configuration { variables: vec![Variable::Latency], ..configuration(8) };
    assert_eq!(ledger.status(&latency_only), ConfigurationStatus::Done);
}

#[test]
fn larger_batches_than_one_that_ran_out_of_memory_are_skipped_and_no_others() {
    let ran_out = MeasurementOutcome::OutOfMemory;
    let ledger =
        MeasurementLedger::from_records(&[row(16, ran_out), row(8, ran_out), row(32, MeasurementOutcome::Skipped)]);
    assert_eq!(ledger.status(&configuration(4)), ConfigurationStatus::Measure(BOTH.to_vec()));
    assert_eq!(ledger.status(&configuration(8)), ConfigurationStatus::Measure(vec![Variable::Memory]));
    assert_eq!(ledger.status(&configuration(64)), ConfigurationStatus::Skip { ran_out: 8, missing: BOTH.to_vec() });
    let latency_only = Configuration { variables: vec![Variable::Latency], ..configuration(32) };
    assert_eq!(ledger.status(&latency_only), ConfigurationStatus::Done);
    let other_stage = Workload::published(Stage::Inference, 64);
    let inference = Configuration { workload: other_stage, ..configuration(64) };
    assert!(matches!(ledger.status(&inference), ConfigurationStatus::Measure(_)));
    let again = Configuration { round: 2, ..configuration(8) };
    assert_eq!(ledger.status(&again), ConfigurationStatus::Done, "what did not fit is not repeated");
}

#[test]
fn any_other_failure_is_tried_again_by_the_next_run_and_says_nothing_of_larger_batches() {
    for outcome in [
        MeasurementOutcome::Crashed,
        MeasurementOutcome::TimedOut,
        MeasurementOutcome::Garbled,
        MeasurementOutcome::Failed,
    ] {
        let mut ledger = MeasurementLedger::default();
        ledger.record(&row(8, outcome));
        assert_eq!(ledger.status(&configuration(8)), ConfigurationStatus::Done, "once a run");
        assert_eq!(ledger.status(&configuration(16)), ConfigurationStatus::Measure(BOTH.to_vec()));
        let next = MeasurementLedger::from_records(ledger.rows());
        assert_eq!(next.status(&configuration(8)), ConfigurationStatus::Measure(BOTH.to_vec()), "{outcome}");
    }
}

#[test]
fn layers_are_timed_once_and_never_of_what_failed() {
    let layers = |batch| Configuration { variables: Variable::ALL.to_vec(), ..configuration(batch) };
    let mut ledger = MeasurementLedger::from_records(&[
        row(4, MeasurementOutcome::Measured),
        row(16, MeasurementOutcome::OutOfMemory),
    ]);
    let rest = [Variable::Memory, Variable::Layers].to_vec();
    assert_eq!(ledger.status(&layers(4)), ConfigurationStatus::Measure(rest));
    ledger.enter_layers(&configuration(4).variant, configuration(4).workload);
    assert_eq!(ledger.status(&layers(4)), ConfigurationStatus::Measure(vec![Variable::Memory]));
    assert_eq!(ledger.status(&layers(16)), ConfigurationStatus::Measure(vec![Variable::Memory]));
    assert_eq!(ledger.status(&layers(32)), ConfigurationStatus::Skip { ran_out: 16, missing: BOTH.to_vec() });
}

#[test]
fn what_is_under_way_may_decide_about_other_batches_of_its_variant() {
    let mut ledger = MeasurementLedger::from_records(&[row(4, MeasurementOutcome::Measured)]);
    ledger.begin(&configuration(8));
    assert_eq!(ledger.status(&configuration(16)), ConfigurationStatus::UnderWay);
    assert_eq!(ledger.status(&configuration(8)), ConfigurationStatus::UnderWay);
    let other = Configuration { variant: Variant::new("net", 50), ..configuration(16) };
    assert_eq!(ledger.status(&other), ConfigurationStatus::Measure(BOTH.to_vec()));
    ledger.end(&configuration(8));
    assert_eq!(ledger.status(&configuration(16)), ConfigurationStatus::Measure(BOTH.to_vec()));
    assert!(!ledger.is_under_way());
}

#[test]
fn a_skipped_row_is_no_failure_of_its_own() {
    let ledger = MeasurementLedger::from_records(&[row(8, MeasurementOutcome::Skipped)]);
    assert_eq!(
        ledger.status(&configuration(8)),
        ConfigurationStatus::Measure(BOTH.to_vec()),
        "nothing smaller ran out"
    );
    assert!(matches!(ledger.status(&configuration(16)), ConfigurationStatus::Measure(_)));
}

/// Ten levels at three batch sizes: 20 ms to start the operations of a step, plus a time per image that starts at 100
/// ms and shrinks with the level.
fn levels() -> Vec<RowRecord> {
    let pairs = (0..10u8).flat_map(|level| [1, 2, 4].map(|batch| (10 * level, batch)));
    let row = |(level, batch): (u8, u64)| {
        let left = 1.0 - f64::from(level) / 100.0;
        let workload = Workload::published(Stage::Training, batch);
        let reading = RowReading::Latency(Some(Milliseconds(20.0 + 100.0 * left * batch as f64)));
        RowRecord::new(Variant::new("net", level), workload, MeasurementOutcome::Measured, reading)
    };
    pairs.map(row).collect()
}

#[test]
fn steps_that_cost_what_their_parts_do_are_expected() {
    assert_eq!(unexpected_rows(&levels()), []);
}

#[test]
fn slow_rows_stand_out_and_take_no_others_with_them() {
    let mut rows = levels();
    for (place, factor) in [(4, 1.4), (14, 1.3), (20, 1.5)] {
        rows[place].reading = RowReading::Latency(rows[place].value().map(|ms| Milliseconds(ms * factor)));
    }
    let far = unexpected_rows(&rows);
    assert_eq!(far.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [4, 14, 20]);
    assert!(far.iter().all(|(_, factor)| (1.2..1.6).contains(factor)), "{far:?}");
}

#[test]
fn too_few_rows_say_nothing_of_each_other() {
    assert_eq!(unexpected_rows(&levels()[..6]), []);
}

fn configurations() -> Vec<Configuration> {
    // Unordered, as in a sweep.
    let batches = [4, 1, 2, 8].map(|batch| Workload::published(Stage::Training, batch));
    let configuration = |workload| Configuration {
        variant: Variant::new("net", 0),
        workload,
        variables: vec![Variable::Latency],
        round: 1,
    };
    batches.map(configuration).to_vec()
}

fn timed(configuration: &Configuration, visits: &[f64]) -> RowRecord {
    let Configuration { variant, workload, .. } = configuration.clone();
    let reading = RowReading::Latency(visits.first().copied().map(Milliseconds));
    let record = RowRecord::new(variant, workload, MeasurementOutcome::Measured, reading);
    RowRecord { spread: Some(0.0), visits: visits.to_vec(), ..record }
}

/// The batch sizes in the order in which they are measured, with this many seconds for each.
fn measured(plan: &mut Repetitions, ledger: &mut MeasurementLedger, each: f64) -> (Vec<u64>, PlanEnding) {
    let mut order: Vec<u64> = Vec::new();
    loop {
        let configuration = match plan.next(ledger, each * order.len() as f64).unwrap() {
            PlanDecision::Measure(configuration) => {
                ledger.record(&timed(&configuration, &[1.0]));
                configuration
            }
            PlanDecision::Repeat { configuration, place } => {
                ledger.repeat(place);
                ledger.revise(place, timed(&configuration, &[1.0, 1.0]));
                configuration
            }
            PlanDecision::Stop(ending) => return (order, ending),
            decision @ (PlanDecision::Wait | PlanDecision::Skip(_)) => panic!("{decision:?}"),
        };
        order.push(configuration.workload.batch);
    }
}

fn plan(budget: Option<f64>) -> Repetitions {
    Repetitions::new(Box::new(GridPlan::new(configurations())), &configurations(), 2, budget)
}

#[test]
fn everything_is_measured_once_and_then_again_in_the_same_order() {
    let mut ledger = MeasurementLedger::default();
    let (order, ending) = measured(&mut plan(None), &mut ledger, 1.0);
    assert_eq!((order.as_slice(), ending), (&[4, 1, 2, 8, 4, 1, 2, 8][..], PlanEnding::Complete));
    assert!(
        measured(&mut plan(None), &mut MeasurementLedger::from_records(ledger.rows()), 1.0).0.is_empty(),
        "nothing is left"
    );
}

#[test]
fn what_was_measured_once_in_an_earlier_run_is_repeated() {
    let earlier =
        [timed(&configurations()[1], &[1.0]), timed(&configurations()[2], &[]), timed(&configurations()[0], &[1.0])];
    // The second row is of a version that kept no repetitions.
    assert_eq!(measured(&mut plan(None), &mut MeasurementLedger::from_records(&earlier), 1.0).0, [8, 4, 1, 8]);
}

#[test]
fn a_budget_keeps_time_for_repetitions() {
    let (order, ending) = measured(&mut plan(Some(4.0)), &mut MeasurementLedger::default(), 1.0);
    assert_eq!((order.as_slice(), ending), (&[4, 1, 4, 1][..], PlanEnding::Budget { seconds: 4.0, unmeasured: 2 }));
    let pace = plan(Some(80.0)).pace(&MeasurementLedger::default(), 0.0).unwrap();
    // Nine tenths of 80 s for each of four twice.
    assert_eq!(pace, MeasurementPace { repetitions: 2, seconds: Some([9.0, 80.0]), short: false, disturbed: false });
}

#[test]
fn nothing_is_repeated_before_a_fit_has_its_rows_and_steps_get_fewer_where_time_is_short() {
    let mut plan = plan(Some(4.0)).repeating_after(3);
    let mut ledger = MeasurementLedger::default();
    let (order, ending) = measured(&mut plan, &mut ledger, 1.0);
    assert_eq!((order.as_slice(), ending), (&[4, 1, 2, 4][..], PlanEnding::Budget { seconds: 4.0, unmeasured: 1 }));
    // Four measurements took a second each, and four are left: one more of two rows each, and two of one
    // configuration.
    let short = |budget| self::plan(Some(budget)).pace(&ledger, 4.0).unwrap().short;
    assert!(short(6.0) && !short(8.0), "nine tenths of 2 s for four, of 4 s for four");
}
