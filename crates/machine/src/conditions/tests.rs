//! Tests of `conditions`.

use super::*;

fn clock(clocks: &[(&str, f64)], promised: &[(&str, f64)]) -> MachineState {
    let map = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, mhz)| ((*name).to_owned(), *mhz)).collect();
    MachineState { clocks: map(clocks), promised: map(promised), ..MachineState::default() }
}

fn until(end: MachineState) -> Conditions {
    Conditions { start: MachineState::default(), end }
}

#[test]
fn a_machine_that_tells_nothing_was_neither_throttled_nor_disturbed() {
    let silent = Conditions::default();
    assert_eq!((silent.throttling(), silent.disturbance(), silent.stolen_share()), (None, None, None));
}

#[test]
fn a_grown_counter_means_throttled_and_a_high_one_does_not() {
    let counted = |throttles| MachineState { throttles: Some(throttles), ..MachineState::default() };
    let between = |start, end| Conditions { start: counted(start), end: counted(end) }.throttling();
    assert_eq!(between(7, 7), None);
    assert!(between(7, 9).unwrap().contains("2 times"));
    assert_eq!(until(counted(9)).throttling(), None, "nothing to compare with");
}

#[test]
fn whatever_holds_clocks_down_at_either_end_is_named() {
    let held = MachineState { held_by: vec!["cpufreq-cpu0".to_owned()], ..MachineState::default() };
    let before = Conditions { start: held.clone(), end: MachineState::default() };
    for conditions in [before, until(held)] {
        assert!(conditions.throttling().unwrap().contains("cpufreq-cpu0"));
    }
}

#[test]
fn a_clock_below_the_promised_one_counts_at_the_end_only() {
    let slow = clock(&[("cpu", 1900.0)], &[("cpu", 2100.0)]);
    assert!(until(slow.clone()).throttling().unwrap().contains("cpu ran at 1900 MHz, below the 2100 MHz"));
    // Idle processors clock down.
    assert_eq!(Conditions { start: slow, end: clock(&[("cpu", 3000.0)], &[("cpu", 2100.0)]) }.throttling(), None);
    assert_eq!(until(clock(&[("cpu", 2000.0)], &[("cpu", 2100.0)])).throttling(), None, "95 % of it");
    assert_eq!(until(clock(&[("gpu", 100.0)], &[("cpu", 2100.0)])).throttling(), None, "another clock");
}

#[test]
fn theft_is_measured_against_the_time_that_was_wanted() {
    let counted = |busy, stolen| MachineState { busy: Some(busy), stolen: Some(stolen), ..MachineState::default() };
    let taken = |stolen| Conditions { start: counted(100.0, 30.0), end: counted(109.5, 30.0 + stolen) };
    // 0.5 of 10 seconds are 5 %.
    assert_eq!(taken(0.5).stolen_share(), Some(0.05));
    assert_eq!(taken(0.5).disturbance(), None);
    assert!(taken(9.5).disturbance().unwrap().contains("50.0 % of the processor time"));
    let briefly = Conditions { start: counted(100.0, 30.0), end: counted(100.05, 30.05) };
    assert_eq!(briefly.disturbance(), None, "half of what was wanted, but only five ticks");
    assert_eq!(taken(-1.0).stolen_share(), None, "counters of another machine");
}

#[test]
fn other_programs_disturb() {
    let shared = MachineState { others: vec!["process 4711".to_owned()], ..MachineState::default() };
    assert!(until(shared).disturbance().unwrap().contains("process 4711"));
}

#[test]
fn a_moment_is_told_by_its_clocks_and_its_hottest_zone() {
    let mut moment = clock(&[("cpu", 2035.2), ("gpu", 1300.5)], &[]);
    moment.temperatures = [("GPU-therm".to_owned(), 52.0), ("PMIC-Die".to_owned(), 40.0)].into();
    moment.held_by = vec!["gpu-balanced".to_owned()];
    assert_eq!(moment.to_string(), "cpu 2035 MHz, gpu 1300 MHz, GPU-therm 52.0 °C, held down by gpu-balanced");
    assert_eq!(MachineState::default().to_string(), "the machine reports no clocks or temperatures");
}

#[test]
fn conditions_reach_from_the_first_start_to_the_last_end() {
    let at = |mhz| clock(&[("cpu", mhz)], &[]);
    let mut all = Conditions::default();
    all.extend(&Conditions { start: at(1.0), end: at(2.0) });
    all.extend(&Conditions { start: at(3.0), end: at(4.0) });
    assert_eq!(all, Conditions { start: at(1.0), end: at(4.0) });
}

#[test]
fn what_is_not_told_is_not_written() {
    assert_eq!(serde_json::to_string(&Conditions::default()).unwrap(), r#"{"start":{},"end":{}}"#);
    let text = r#"{"start":{"clocks":{"gpu":1300.5}},"end":{}}"#;
    let read: Conditions = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}
