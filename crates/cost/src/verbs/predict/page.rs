//! The answer as a page: what stands on the console, and of one network what lies in memory while a step of it runs.

use super::answers::{DeviceAnswers, Predictions};
use crate::verbs::timeline;
use perf4sight_base::units::Bytes;
use perf4sight_report::{Block, Page, Tone, sentence};

impl Predictions {
    /// A page for people; `asked` is the limit asked for.
    pub fn page(&self, asked: Option<Bytes>) -> Page {
        let subtitle = self.devices.iter().map(DeviceAnswers::subject).collect::<Vec<_>>().join("; ");
        let mut page = Page::new("Predictions", subtitle);
        let sentences = self.sentences(asked);
        let verdict = sentences.lines().map(|line| Block::Verdict(self.tone(), sentence(line)));
        page.chapter("Answer", verdict.chain(self.tables().into_iter().map(Block::Table)));
        page.chapter("Memory over a step", self.devices.iter().flat_map(DeviceAnswers::timelines));
        page.chapters.retain(|chapter| !chapter.blocks.is_empty());
        page.chapter("What it rests on", [Block::List(self.remarks().iter().map(|line| sentence(line)).collect())]);
        page
    }

    /// How glad one may be of what was asked.
    fn tone(&self) -> Tone {
        let all = || self.devices.iter().flat_map(|device| &device.answers).flat_map(|answer| &answer.points);
        if all().all(|point| point.fits()) { Tone::Good } else { Tone::Caution }
    }
}

impl DeviceAnswers {
    fn subject(&self) -> String {
        format!("{} on {}", self.step, self.name())
    }

    fn timelines(&self) -> Vec<Block> {
        let timelines = self.answers.iter().filter_map(|answer| {
            let breakdown = answer.breakdown.as_ref()?;
            let what = format!("{} on {}, batch size {}", answer.network, self.name(), breakdown.batch);
            // A limit of all that a process takes stands next to tensors all the same: they cannot take more.
            let limit = answer.limit.map(|limit| limit.bytes);
            Some(timeline::blocks(breakdown.timeline.as_ref()?, &what, limit))
        });
        timelines.flatten().collect()
    }
}
