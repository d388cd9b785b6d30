//! One quantity: its fingerprint, fitted or stored, and the test on measured rows.

use super::report::Assessment;
use super::{FingerprintSection, QuantitySource, RowSplit, profiles};
use crate::evaluation::{AccuracyStudy, PlannedFits};
use crate::fingerprint::{Fingerprint, FitProvenance, GatheredRows, NetworkFolder, RowSelection, gather};
use perf4sight_base::error::{Error, Result};
use perf4sight_platform::Platform;
use perf4sight_step::workload::Quantity;
use perf4sight_verb::Context;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A fingerprint, the rows it was fitted on, and its tests.
pub(super) struct AssessedFingerprint {
    fingerprint: Fingerprint,
    basis: Option<FitBasis>,
    tested: GatheredRows,
    study: AccuracyStudy,
}

/// The rows that a fingerprint was fitted on.
struct FitBasis {
    rows: GatheredRows,
    platform: Platform,
}

impl AssessedFingerprint {
    pub(super) fn assessment(&self) -> Assessment<'_> {
        Assessment {
            fingerprint: &self.fingerprint,
            fitted: self.basis.as_ref().map(|basis| &basis.rows),
            tested: &self.tested,
            study: &self.study,
        }
    }
}

impl FingerprintSection {
    /// Fits or loads the fingerprint of a quantity, tests it, and stores it if it was fitted.
    pub(super) fn assess(
        &self,
        source: &QuantitySource,
        networks: &mut NetworkFolder,
        context: &mut Context,
    ) -> Result<AssessedFingerprint> {
        let fits = self.fits(source);
        let (mut fingerprint, basis) = match fits {
            true => self.fit(source, networks, context).map(|(fingerprint, basis)| (fingerprint, Ok(basis)))?,
            false => {
                let stored = self.load(source, context)?;
                let basis = self.basis_of(&stored, source, networks);
                if let Err(reason) = &basis {
                    let quantity = source.quantity;
                    context.warn(format!("{quantity}: other fits are not compared: {}", reason.in_one_line()));
                }
                (stored, basis)
            }
        };
        let selection = self.selection(source.quantity, &source.test, &self.test);
        let tested = gather(&selection, networks)?;
        warn_of_gaps(&tested, "to test on", source.quantity, context);
        let study = study(&fingerprint, &basis, &tested, context);
        if fits {
            fingerprint.scores = study.own.whole.evaluation.unseen_cases().scores();
            fingerprint.left_out = errors_by_network(&study);
            fingerprint.save(&self.store)?;
        }
        match tested.check_any(&selection).map_err(|nothing| context.with_reason(nothing)) {
            Err(nothing) if self.evaluate => return Err(nothing),
            Err(nothing) => context.warn(format!("nothing to test on: {nothing}")),
            Ok(()) => {}
        }
        Ok(AssessedFingerprint { fingerprint, basis: basis.ok(), tested, study })
    }

    fn fit(
        &self,
        source: &QuantitySource,
        networks: &mut NetworkFolder,
        context: &mut Context,
    ) -> Result<(Fingerprint, FitBasis)> {
        let selection = self.selection(source.quantity, &source.fit, &self.fit);
        let gathered = gather(&selection, networks)?;
        gathered.check_any(&selection).map_err(|nothing| context.with_reason(nothing))?;
        warn_of_gaps(&gathered, "to fit on", source.quantity, context);
        report_other_steps(&gathered.of_other_steps, source.quantity, context);
        let begin = context.now();
        let subject = self.subject(source.quantity);
        let facts = self.platform(source)?;
        facts.report_assumption(self.step, &gathered.rows, context);
        let platform = facts.platform;
        platform.check_precision(self.step.precision)?;
        let fitted = Fingerprint::fit(subject, self.recipe, &gathered.observations(&platform));
        let mut fingerprint = fitted.map_err(|failure| context.with_reason(failure))?;
        fingerprint.settings = profiles(source.fit.iter())?.into_iter().map(|profile| profile.setting).collect();
        fingerprint.provenance = FitProvenance {
            date: humantime::format_rfc3339_seconds(begin).to_string(),
            seconds: context.now().duration_since(begin).unwrap_or_default().as_secs_f64(),
        };
        Ok((fingerprint, FitBasis { rows: gathered, platform }))
    }

    /// The rows that a stored fingerprint was fitted on; an error gives the reason why it cannot be refitted, and does
    /// not stop the run.
    fn basis_of(
        &self,
        stored: &Fingerprint,
        source: &QuantitySource,
        networks: &mut NetworkFolder,
    ) -> Result<FitBasis> {
        let selection = self.selection(source.quantity, &source.fit, &self.fit);
        let rows = gather(&selection, networks)?;
        match stored.was_fitted_on(&rows) {
            true => Ok(FitBasis { rows, platform: self.platform(source)?.platform }),
            false => {
                Err(Error::input("the stored fingerprint was fitted on other rows than those of the configuration"))
            }
        }
    }

    fn load(&self, source: &QuantitySource, context: &Context) -> Result<Fingerprint> {
        let file = self.file(source);
        let stored = Fingerprint::load(&self.store, self.step.stage, source.quantity)?.ok_or_else(|| {
            Error::input("there is no fingerprint to evaluate")
                .file(&file)
                .help("fit one first, with evaluate = False, or set model_storedir")
        })?;
        stored.check_step(self.step).map_err(|error| error.file(&file))?;
        if !self.evaluate {
            self.check_own(&stored).map_err(|error| error.file(&file))?;
            let (file, date) = (file.display(), &stored.provenance.date);
            context.console.note(format!("{file} of {date} is used as it is; overwrite = True fits it again"));
        }
        Ok(stored)
    }

    /// Refuses a stored fingerprint of another step than the requested one.
    fn check_own(&self, stored: &Fingerprint) -> Result<()> {
        let own = stored.subject().step;
        match own == self.step {
            true => Ok(()),
            false => Err(Error::input(format!("the stored fingerprint is of {own}"))
                .expected(format!("one of {}", self.step))
                .help("set overwrite = True or another model_storedir to fit one, or evaluate = True to see how well it predicts that step")),
        }
    }

    fn selection<'a>(&'a self, quantity: Quantity, folders: &'a [PathBuf], split: &'a RowSplit) -> RowSelection<'a> {
        let RowSplit { networks, levels } = split;
        RowSelection { folders, networks, levels: levels.clone(), step: self.step, quantity }
    }
}

/// The errors of fits without each network on that network, in percent.
fn errors_by_network(study: &AccuracyStudy) -> BTreeMap<String, f64> {
    let left_out = study.own.left_out.iter().flat_map(|trial| trial.evaluation.by(|case| case.variant.network.clone()));
    left_out.map(|(network, scores)| (network, scores.mape)).collect()
}

/// Runs every test protocol that the rows allow.
fn study(
    fingerprint: &Fingerprint,
    basis: &Result<FitBasis>,
    tested: &GatheredRows,
    context: &Context,
) -> AccuracyStudy {
    let FitBasis { rows, platform } = match basis {
        Ok(basis) => basis,
        Err(reason) => return AccuracyStudy::without_fits(fingerprint, tested, reason.to_string()),
    };
    let fits = PlannedFits::new(fingerprint, rows.observations(platform), tested.observations(platform));
    let progress =
        context.console.progress(fits.count() as u64, &format!("testing {}", fingerprint.subject().quantity));
    fits.run(|| progress.advance(1))
}

/// Warns of missing files and rows; failed rows are normal in a profile.
fn warn_of_gaps(gathered: &GatheredRows, purpose: &str, quantity: Quantity, context: &mut Context) {
    if gathered.is_incomplete() {
        context.warn(format!("{quantity} rows {purpose}: {gathered}"));
    }
    match gathered.warnings.as_slice() {
        [] => {}
        [warning] => context.warn(warning),
        [first, others @ ..] => context.warn(format!("{first} (and {} more notes, all in the report)", others.len())),
    }
}

/// Reports rows of other steps: a profile may hold several steps; a fingerprint is of one.
fn report_other_steps(rows: &BTreeMap<String, usize>, quantity: Quantity, context: &Context) {
    for (step, count) in rows {
        let note = format!(
            "{count} {quantity} rows of {step} are left out: [fingerprint] with that stage and these settings fits them"
        );
        context.console.note(note);
    }
}
