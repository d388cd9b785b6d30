//! `perf4sight profile --check-noise`: noise that is known beforehand is found, and what cannot be checked is refused.

use crate::fixtures::Scene;
use serde_json::Value;

/// The check of a simulated device with so much noise.
fn check(noise: f64) -> Value {
    let scene = Scene::new().file("device.json", format!("{{\"noise\": {noise}}}"));
    scene.run("profile --check-noise --device simulated --device-source device.json --json").succeeds().json()
}

fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("{key} in {found}"))
}

#[test]
fn simulated_noise_is_found() {
    for (noise, repeatable) in [(0.02, true), (0.1, false)] {
        let found = check(noise);
        // Uniform from -noise to +noise: the mean of its magnitude is half of that, with a standard deviation of 0.29 of it; the
        // mean of 40 is off by 9 % of itself, so by 30 % at most.
        let expected = 100.0 * noise / 2.0;
        let floor = number(&found, "noise_floor");
        assert!((floor / expected - 1.0).abs() < 0.3, "{floor} instead of {expected}");
        // 0.7 to 1.3 % are brought to 1 % by one or two; 3.5 % would need a dozen.
        assert_eq!(found["repeats"].as_u64().is_some_and(|repeats| repeats <= 2), repeatable, "{found}");
        assert!((number(&found, "within_run") - 100.0 * noise).abs() < 1e-9);
        // Draws in a row do not follow each other.
        let drift = &found["drift"];
        assert!(number(drift, "percent").abs() < 3.0 * number(drift, "standard_error"), "{found}");
        let configurations = found["configurations"].as_array().unwrap();
        let sizes: Vec<(&Value, &Value)> = configurations.iter().map(|one| (&one["batch"], &one["runs"])).collect();
        assert_eq!(sizes, [(&1.into(), &20.into()), (&8.into(), &20.into())]);
        // No draw is farther from another than the whole range.
        assert!(configurations.iter().all(|one| number(one, "worst_percent") <= 200.0 * noise / (1.0 - noise)));
    }
}

#[test]
fn a_device_without_noise_needs_no_repeats() {
    let found = check(0.0);
    assert!(number(&found, "noise_floor") < 1e-9 && found["repeats"].as_u64() == Some(1), "{found}");
    assert_eq!((&found["stolen"], &found["conditions"]), (&Value::Null, &serde_json::json!({"start": {}, "end": {}})));
}

#[test]
fn the_verdict_is_in_words() {
    let run = Scene::new().run("profile --check-noise --device simulated --network resnet18@30 --bs 2,4,8").succeeds();
    for line in [
        "training of resnet18@30 on simulated, every run in a fresh worker",
        "A prediction cannot be closer than ",
        "steps disturbed by other programs",
        "the machine reports no clocks or temperatures",
    ] {
        assert!(run.stdout().contains(line), "{line:?} is not in {run}");
    }
}

#[test]
fn the_device_can_be_that_of_a_configuration() {
    let config = "[profile]\nnetwork = resnet18\nbs = [1]\ndevice = simulated\ndevice_source = quiet.json\n";
    let scene = Scene::new().file("config.ini", config).file("quiet.json", "{\"noise\": 0}");
    let found = scene.run("profile --check-noise --config-file config.ini --json").succeeds().json();
    assert!(found["device"] == "simulated" && number(&found, "noise_floor") < 1e-9, "{found}");
    scene.run("profile --check-noise --config-file config.ini --device cpu").fails(2).says("--config-file");
    let other = Scene::new().file("config.ini", "[predict]\nnetworks = resnet18\n");
    other
        .run("profile --check-noise --config-file config.ini")
        .fails(3)
        .says("config.ini")
        .says("no section [profile]");
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let scene = Scene::new();
    scene.run("profile").fails(2).says("--check-noise");
    scene.run("profile --check-noise --device recorded").fails(3).says("always gives the same result");
    scene.run("profile --check-noise --device simulatd").fails(3).says("did you mean \"simulated\"?");
    scene.run("profile --check-noise --device simulated --network resnet19").fails(3).says("resnet19");
    scene.run("profile --check-noise --device simulated --bs 0").fails(2).says("--bs");
    scene
        .run("profile --check-noise --device simulated --bs 1000000")
        .fails(5)
        .says("batch size 1000000 of squeezenet: it does not fit");
}

#[test]
fn help_shows_examples() {
    Scene::new().run("profile --help").succeeds().prints("Examples:").prints("--config-file config.ini --json");
}
