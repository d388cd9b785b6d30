//! The most memory while each operation of a period runs.

use crate::step::{AllocationSchedule, StepPeriod};
use crate::tensor::{OperationMark, ScheduleEvent, TensorRole};

/// Bytes by [`TensorRole::ALL`].
pub(crate) type BytesByRole = [u64; TensorRole::ALL.len()];

/// For every operation of a period, in the order they run: what is alive when it is most.
pub(crate) fn each_operation(
    schedule: &AllocationSchedule,
    batch: u64,
    period: StepPeriod,
) -> Vec<(OperationMark, BytesByRole)> {
    let tensors = schedule.tensors().map(|tensor| (tensor.role as usize, tensor.amount.bytes(batch))).collect();
    let mut tally = AliveBytes { tensors, bytes: [0; TensorRole::ALL.len()] };
    for earlier in StepPeriod::ALL.into_iter().filter(|earlier| *earlier < period) {
        schedule.events(earlier).for_each(|event| tally.count(event));
    }
    let (events, marks): (Vec<ScheduleEvent>, Vec<OperationMark>) =
        (schedule.events(period).collect(), schedule.marks(period).collect());
    let mut begin = 0;
    let most = |(index, mark): (usize, &OperationMark)| {
        let end = marks.get(index + 1).map_or(events.len(), |next| next.event);
        let mut most = tally.bytes;
        for event in &events[begin..end] {
            tally.count(*event);
            if sum(&tally.bytes) > sum(&most) {
                most = tally.bytes;
            }
        }
        begin = end;
        (*mark, most)
    };
    marks.iter().enumerate().map(most).collect()
}

/// All roles together.
pub(crate) fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The bytes alive, by role.
struct AliveBytes {
    /// Of each tensor its role and its size.
    tensors: Vec<(usize, u64)>,
    bytes: BytesByRole,
}

impl AliveBytes {
    fn count(&mut self, event: ScheduleEvent) {
        match event {
            ScheduleEvent::Allocate(tensor) => {
                let (role, bytes) = self.tensors[tensor as usize];
                self.bytes[role] = self.bytes[role].saturating_add(bytes);
            }
            ScheduleEvent::Free(tensor) => {
                let (role, bytes) = self.tensors[tensor as usize];
                self.bytes[role] = self.bytes[role].saturating_sub(bytes);
            }
            ScheduleEvent::Settle(_) | ScheduleEvent::BackwardDone => {}
        }
    }
}
