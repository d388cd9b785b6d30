//! The predictions as a page: the console output and, for a single network, the memory timeline of a step.

use super::answers::{DeviceAnswers, DevicePredictions};
use crate::verbs::timeline;
use perf4sight_base::units::Bytes;
use perf4sight_report::{AnswerTone, Block, Page, sentence};

impl DevicePredictions {
    /// A page for people, with what they were warned of; `asked` is the requested limit.
    pub fn page(&self, asked: Option<Bytes>, warnings: &[String]) -> Page {
        let subtitle = self.devices.iter().map(DeviceAnswers::subject).collect::<Vec<_>>().join("; ");
        let mut page = Page::new("Predictions", subtitle);
        let sentences = self.to_sentences(asked);
        let verdict = sentences.lines().map(|line| Block::Verdict(self.tone(), sentence(line)));
        page.chapter("Answer", verdict.chain(self.tables().into_iter().map(Block::Table)));
        page.chapter("Memory over a step", self.devices.iter().flat_map(DeviceAnswers::timelines));
        page.chapters.retain(|chapter| !chapter.blocks.is_empty());
        let rests_on = warnings.iter().chain(&self.remarks()).map(|line| sentence(line)).collect();
        page.chapter("What it rests on", [Block::List(rests_on)]);
        page
    }

    /// The tone of the answer, by how well the requested steps fit; nothing measured is a reason to read on.
    fn tone(&self) -> AnswerTone {
        let is_prior = self.devices.iter().any(|device| device.fingerprints.are_priors());
        let all = || self.devices.iter().flat_map(|device| &device.answers).flat_map(|answer| &answer.points);
        if all().all(|point| point.fits()) && !is_prior { AnswerTone::Good } else { AnswerTone::Caution }
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
            // A limit on the whole process is also drawn next to the tensors: they cannot exceed it.
            let limit = answer.limit.map(|limit| limit.bytes);
            Some(timeline::blocks(breakdown.timeline.as_ref()?, &what, limit))
        });
        timelines.flatten().collect()
    }
}
