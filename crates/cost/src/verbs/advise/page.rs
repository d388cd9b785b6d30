//! The advice as a page: a chart of time against memory, all results, and the memory timeline of the requested step.

use super::Advice;
use super::search::AdviceCandidate;
use crate::verbs::timeline;
use perf4sight_report::{
    AnswerTone, Axis, Block, Chart, Colour, Page, Plot, Reference, ScatterPoint, Series, Tradeoff, sentence,
};

impl Advice {
    pub(super) fn page(&self, warnings: &[String]) -> Page {
        let mut page =
            Page::new(format!("What makes {} fit", self.network), format!("{} on {}", self.asked_words(), self.device));
        let asked = Block::Verdict(self.tone_as_asked(), sentence(&self.as_asked()));
        let found = self.fitting().into_iter().map(|line| Block::Verdict(self.tone(), sentence(&line)));
        let helping = self.helps_most().into_iter().map(|line| Block::Text(sentence(&line)));
        let chart = self.findings.asked.time.is_some().then(|| Block::Chart(self.chart()));
        page.chapter("Answer", [asked].into_iter().chain(found).chain(helping).chain(chart));
        page.chapter("What fits, and what changes do", self.tables().into_iter().map(Block::Table));
        if let Some(timeline) = &self.timeline {
            let what = format!("{} on {}, as asked, batch size {}", self.network, self.device, self.asked.batch);
            let limit = self.limit.map(|limit| limit.bytes);
            page.chapter("Memory over the step as asked", timeline::blocks(timeline, &what, limit));
        }
        let rests_on = warnings.iter().chain(&self.remarks()).map(|line| sentence(line)).collect();
        page.chapter("What it rests on", [Block::List(rests_on)]);
        page
    }

    fn tone_as_asked(&self) -> AnswerTone {
        match self.findings.asked.need.fits() && !self.is_prior {
            true => AnswerTone::Good,
            false => AnswerTone::Caution,
        }
    }

    /// The tone, by the changes that make it fit: good if training gives the same result.
    fn tone(&self) -> AnswerTone {
        match self.findings.fitting.iter().any(|one| one.learns_the_same) && !self.is_prior {
            true => AnswerTone::Good,
            false => AnswerTone::Caution,
        }
    }

    /// Every combination with a predicted time: further left is cheaper, further down needs less memory.
    fn chart(&self) -> Chart {
        let points = |same: bool| -> Vec<ScatterPoint> {
            let all = self.findings.fitting.iter().chain(&self.findings.single).chain(&self.findings.nearest);
            all.filter(|one| one.learns_the_same == same).filter_map(|one| self.point(one)).collect()
        };
        let plot = Tradeoff {
            x: Axis::log("time of a sample (ms)"),
            y: Axis::linear("memory (GiB)"),
            series: vec![
                Series::new("as asked", self.point(&self.findings.asked)).coloured(Colour::Subject),
                Series::new(format!("{} the same", self.learns()), points(true)).coloured(Colour::Nth(0)),
                Series::new(format!("{} otherwise", self.learns()), points(false)).coloured(Colour::Nth(1)),
            ],
            references: self
                .limit
                .map(|limit| Reference::Level(gib(limit.bytes.mib()), format!("limit {}", limit.bytes.in_full())))
                .into_iter()
                .collect(),
        };
        let caption = "Left takes less time, below needs less memory. The line joins the best trade-offs of each kind. Point at a mark to see its change.";
        Chart::new("Time against memory", caption, Plot::Tradeoff(plot))
    }

    fn point(&self, one: &AdviceCandidate) -> Option<ScatterPoint> {
        let label = format!("{}: {}, {}", self.changes_text(one), one.need.counted, one.time.as_ref()?.value);
        Some(ScatterPoint { x: one.per_sample()?, y: gib(one.need.counted.value()), label })
    }
}

/// From predictions in MiB.
fn gib(mib: f64) -> f64 {
    mib / 1024.0
}
