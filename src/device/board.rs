//! What a Jetson board tells of itself as files: release, power mode, clocks, temperatures. Other machines have few of them.

use crate::records::Setting;
use std::fs;
use std::path::{Path, PathBuf};

/// What the folder of a Jetson's GPU is called after its address, from TX1 to Orin.
const GPUS: [&str; 4] = ["gpu", "gp10b", "gv11b", "ga10b"];
/// Zones that are switched off report -256 degrees.
const COLDEST: f64 = -100.0;

/// What measurements depend on and a run does not change, by name. `root` is the root of the file system.
pub(super) fn facts(root: &Path) -> Setting {
    let facts = [("board_release", release(root)), ("power_mode", power_mode(root))];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
}

/// Clocks and temperatures at this moment, by name.
pub(super) fn conditions(root: &Path) -> Setting {
    let clocks = folders(root.join("sys/class/devfreq")).filter_map(|folder| clock(&folder));
    clocks.chain(folders(root.join("sys/class/thermal")).filter_map(|folder| temperature(&folder))).collect()
}

/// `# R36 (release), REVISION: 3.0, GCID: ...`: what stands before the second comma.
fn release(root: &Path) -> Option<String> {
    let line = text(&root.join("etc/nv_tegra_release"))?;
    let parts: Vec<&str> = line.trim_start_matches('#').split(',').take(2).map(str::trim).collect();
    Some(parts.join(", "))
}

/// nvpmodel keeps the mode's number in `pmode:0002 fmode:quiet`; its configuration says `< POWER_MODEL ID=2 NAME=15W >`.
fn power_mode(root: &Path) -> Option<String> {
    let status = text(&root.join("var/lib/nvpmodel/status"))?;
    let number: u32 = status.split_whitespace().find_map(|word| word.strip_prefix("pmode:"))?.parse().ok()?;
    let known = text(&root.join("etc/nvpmodel.conf")).unwrap_or_default();
    let id = format!("ID={number}");
    let named = known.lines().filter(|line| line.contains("POWER_MODEL")).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words
            .contains(&id.as_str())
            .then(|| words.iter().find_map(|word| word.strip_prefix("NAME=")).map(str::to_owned))?
    });
    Some(named.map_or_else(|| number.to_string(), |name| format!("{number} {name}")))
}

fn clock(folder: &Path) -> Option<(String, String)> {
    let name = folder.file_name()?.to_str()?;
    GPUS.iter().find(|gpu| name.ends_with(*gpu))?;
    let hertz: f64 = text(&folder.join("cur_freq"))?.parse().ok()?;
    Some(("gpu_clock".to_owned(), format!("{:.0} MHz", hertz / 1e6)))
}

fn temperature(folder: &Path) -> Option<(String, String)> {
    let zone = text(&folder.join("type"))?;
    let degrees = text(&folder.join("temp"))?.parse::<f64>().ok()? / 1e3;
    (degrees > COLDEST).then(|| (format!("temperature {zone}"), format!("{degrees:.1} °C")))
}

fn folders(parent: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A root with the files that a board has.
    fn board(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (name, content) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        root
    }

    fn named(facts: &[(&str, &str)]) -> Setting {
        facts.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect()
    }

    #[test]
    fn an_orin_on_jetpack_6_tells_all() {
        let root = board(&[
            ("etc/nv_tegra_release", "# R36 (release), REVISION: 3.0, GCID: 36923193, BOARD: generic, EABI: aarch64\n"),
            ("var/lib/nvpmodel/status", "pmode:0002 fmode:quiet\n"),
            (
                "etc/nvpmodel.conf",
                "< PARAM TYPE=FILE NAME=CPU_ONLINE >\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=30W >\n",
            ),
            ("sys/class/devfreq/17000000.gpu/cur_freq", "612000000\n"),
            ("sys/class/devfreq/15340000.vic/cur_freq", "115200000\n"),
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "48406\n"),
            ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
            ("sys/class/thermal/thermal_zone1/temp", "-256000\n"),
        ]);
        let facts = [("board_release", "R36 (release), REVISION: 3.0"), ("power_mode", "2 30W")];
        assert_eq!(super::facts(root.path()), named(&facts));
        let now = [("gpu_clock", "612 MHz"), ("temperature cpu-thermal", "48.4 °C")];
        assert_eq!(conditions(root.path()), named(&now));
    }

    #[test]
    fn a_tx2_names_its_gpu_after_the_chip() {
        let root = board(&[
            ("var/lib/nvpmodel/status", "pmode:0000\n"),
            ("sys/class/devfreq/17000000.gp10b/cur_freq", "1300500000\n"),
        ]);
        // Without nvpmodel's configuration there is only the number.
        assert_eq!(super::facts(root.path()), named(&[("power_mode", "0")]));
        assert_eq!(conditions(root.path()), named(&[("gpu_clock", "1300 MHz")]));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_facts() {
        let root = board(&[("sys/class/thermal/thermal_zone0/type", "acpitz\n")]);
        assert_eq!((super::facts(root.path()), conditions(root.path())), (Setting::new(), Setting::new()));
    }
}
