//! Results computed from points and the model: knees, epochs, the request.

use super::points::{cpus_words, is_wide};
use super::profile::{PredictedEpoch, RecommendedRequest, SensitivityProfile, StorageEpoch, number};
use crate::{CpuGrid, EpochEstimate, EpochModel, Knee, LONGER, RateCurve, ResourceRequest, knees};

/// The memory sizes of the matrices, in percent of the data.
pub(super) const PERCENTS: [u32; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// The storage bandwidths of the matrix, as multiples of the bandwidth that a job without cached data needs.
const BANDWIDTHS: [f64; 6] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0];

impl SensitivityProfile {
    /// Adds all results that follow from points and the model.
    pub fn concluded(mut self, grid: &CpuGrid) -> Self {
        let Some(curve) = self.curve() else { return self };
        self.knees = self.knees_on(grid, &curve);
        self.concluded_from_knees()
    }

    /// Adds the results that follow from points, the model and the knees.
    pub fn concluded_from_knees(mut self) -> Self {
        self.oddities = self.curve().map_or(self.oddities, |curve| curve.oddities());
        self.own_memory = self.own_memory_of_points();
        self.matrix = self.model().map_or(Vec::new(), |model| matrix(&model));
        self.storage_matrix = self.storage_epochs().unwrap_or_default();
        self.request = self.knee().map(|knee| self.requested(knee));
        self
    }

    /// The knees of a curve. A knee is not verified where others disturbed a relevant point, or its error is unknown.
    pub fn knees_on(&self, grid: &CpuGrid, curve: &RateCurve) -> Vec<Knee> {
        let mut knees = knees(grid, curve);
        for point in self.curve_points().filter(|point| point.is_doubtful() || point.is_divided()) {
            knees.iter_mut().for_each(|knee| knee.mark_unverified(grid, point.configuration.cpus));
        }
        knees
    }

    pub fn storage_epochs(&self) -> Option<Vec<StorageEpoch>> {
        let (model, cpus) = (self.model()?, self.knees.last()?.cpus);
        let needed = number(&model.needed_bandwidth(cpus, 0.0)?);
        let epochs = BANDWIDTHS.iter().flat_map(|share| {
            let model = model.with_storage(share * needed);
            let at =
                |percent: u32| StorageEpoch { storage_bandwidth: share * needed, epoch: epoch(&model, cpus, percent) };
            PERCENTS.map(at)
        });
        Some(epochs.collect())
    }

    /// The share of the data in memory with which computing is not held back, and the model that says so.
    fn enough_data(&self, cpus: f64) -> Option<(f64, EpochModel)> {
        let model = self.model()?;
        let seconds = LONGER * model.compute(cpus).likely?;
        let shares = PERCENTS.map(|percent| f64::from(percent) / 100.0);
        Some((model.enough_memory(cpus, seconds, &shares)?, model))
    }

    /// An epoch with what is requested, on storage of the requested bandwidth; none where that is as certain as rates
    /// are.
    pub fn uncertain_epoch(&self) -> Option<EpochEstimate> {
        let requested = self.request.as_ref()?;
        let cpus = requested.request.cpus;
        let (share, model) = self.enough_data(cpus)?;
        let epoch = model.with_storage(requested.storage?).epoch(cpus, share);
        is_wide([epoch.least, epoch.most]).then_some(epoch)
    }

    /// The request of a knee; of an unverified one, its upper bound, so that it is never too small.
    pub fn requested(&self, knee: Knee) -> RecommendedRequest {
        let cpus = if knee.verified { knee.cpus } else { knee.between[1] };
        let share = self.enough_data(cpus);
        let data = share.as_ref().map(|(share, model)| share * model.data.bytes);
        let storage = share.and_then(|(share, model)| Some(number(&model.needed_bandwidth(cpus, share)?)));
        let request = ResourceRequest { cpus, memory: self.memory_to_request(knee, data), gpus: self.job.gpus };
        let mark = mark(knee).unwrap_or_default() + &self.memory_marks(&request);
        let [kubernetes, slurm, docker] = [request.kubernetes(), request.slurm(self.hosts.len()), request.docker()]
            .map(|line| format!("{mark}{line}"));
        RecommendedRequest { request, storage, kubernetes, slurm, docker }
    }
}

pub(super) fn matrix(model: &EpochModel) -> Vec<PredictedEpoch> {
    let cpus: Vec<f64> = model.curve.points().iter().map(|point| point.cpus).collect();
    cpus.iter().flat_map(|cpus| PERCENTS.map(|percent| epoch(model, *cpus, percent))).collect()
}

fn epoch(model: &EpochModel, cpus: f64, memory_percent: u32) -> PredictedEpoch {
    let cached = f64::from(memory_percent) / 100.0;
    PredictedEpoch {
        cpus,
        memory_percent,
        seconds: model.epoch(cpus, cached),
        storage_needed: model.needed_bandwidth(cpus, cached),
        bound: model.bound(cpus, cached),
    }
}

/// A comment above the request lines of an unverified knee.
pub(super) fn mark(knee: Knee) -> Option<String> {
    (!knee.verified).then(|| format!("# not verified: {}\n", doubt_words(knee)))
}

/// "90 % of the best rate may take 0.5 to 2 CPUs"
pub(super) fn doubt_words(knee: Knee) -> String {
    let [low, high] = knee.between;
    let take =
        if low == high { format!("take {}", cpus_words(high)) } else { format!("may take {low} to {high} CPUs") };
    format!("{:.0} % of the best rate {take}", 100.0 * knee.share)
}

#[cfg(test)]
mod tests {
    use super::super::points::tests::{profile_of, run};
    use super::super::points::{MeasuredPoint, PointOutcome, PointRun, ResourceConfiguration};
    use super::super::profile::ModelFacts;
    use super::super::tables::requests;
    use super::*;
    use crate::{JobData, MeasuredOverlap, ReadOverlap};
    use perf4sight_base::units::Bytes;

    /// A request that is copied without its profile still states its uncertainty.
    #[test]
    fn lines_of_a_knee_that_is_not_verified_are_marked() {
        let knee = Knee { share: 0.9, cpus: 0.75, verified: false, between: [0.5, 2.0] };
        assert_eq!(mark(knee).unwrap(), "# not verified: 90 % of the best rate may take 0.5 to 2 CPUs\n");
        let one = mark(Knee { between: [0.25, 0.25], ..knee }).unwrap();
        assert_eq!(one, "# not verified: 90 % of the best rate take 0.25 CPUs\n");
        assert_eq!(mark(Knee { verified: true, ..knee }), None);
    }

    /// Reading takes as long as computing, and how far they overlap is not known: an epoch takes as long as either, or
    /// twice as long.
    #[test]
    fn storage_with_which_an_epoch_may_take_twice_as_long_is_not_certain() {
        let configuration = ResourceConfiguration { cpus: 1.0, memory: None, storage: None };
        let data = JobData { bytes: 1e8, memory_bandwidth: 1e11, storage_bandwidth: 1e9, storage_between: None };
        let with = |overlap: Option<MeasuredOverlap>| {
            let model = Some(ModelFacts { iterations: 100.0, data, cache: None, overlap });
            let profile = profile_of(vec![MeasuredPoint { configuration, runs: vec![run(50.0, 10.0)] }], 1.0);
            requests(&SensitivityProfile { model, ..profile }.concluded(&CpuGrid::new(1.0, 1.0)))
        };
        let open = with(None);
        assert!(open.contains(" MB/s (not certain: an epoch then takes "), "{open}");
        let known = with(Some(MeasuredOverlap::exactly(ReadOverlap::SIDE_BY_SIDE)));
        assert!(known.contains(", on storage that gives ") && !known.contains("not certain"), "{known}");
    }

    /// Others ran all the time, at 0.25 CPUs and at 2: the knee is unknown, and 2 CPUs are enough. The job held 200 MB:
    /// with a quarter more it has 250 MB, and one that held 1 MB has 32 MiB more.
    #[test]
    fn of_points_that_were_all_disturbed_the_safe_end_is_requested() {
        let point = |cpus: f64, rate: f64, peak: u64| MeasuredPoint {
            configuration: ResourceConfiguration { cpus, memory: None, storage: None },
            runs: vec![PointRun {
                outcome: PointOutcome::Disturbed { how: "others".to_owned() },
                cpu_seconds: Some(0.1 * 10.0),
                waited: Some(0.99),
                peak_memory: Some(Bytes(peak)),
                ..run(rate, 10.0)
            }],
        };
        let requested = |peak: u64| {
            let profile = profile_of(vec![point(0.25, 9.8, peak), point(2.0, 9.7, peak)], 2.0);
            profile.concluded(&CpuGrid::new(2.0, 0.25)).request.unwrap()
        };
        let large = requested(200_000_000);
        assert_eq!((large.request.cpus, large.request.memory), (2.0, Some(Bytes(250_000_000))));
        assert!(large.kubernetes.starts_with("# not verified: 90 % of the best rate may take 0.25 to 2 CPUs\n"));
        assert!(large.kubernetes.contains("cpu: 2,"), "{}", large.kubernetes);
        assert_eq!(requested(1_000_000).request.memory, Some(Bytes(1_000_000 + (32 << 20))));
    }
}
