//! What is found once and asked for often, from several threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Answers by question, each found when it is first asked for. Who asks for one that another thread is finding waits for it alone.
///
/// ```
/// use perf4sight_base::remembered::Remembered;
/// let squares = Remembered::default();
/// assert_eq!(*squares.of(3, || 9), 9);
/// assert_eq!(*squares.of(3, || unreachable!()), 9);
/// ```
#[derive(Debug)]
pub struct Remembered<Question, Answer>(Mutex<BTreeMap<Question, Place<Answer>>>);

type Place<Answer> = Arc<OnceLock<Arc<Answer>>>;

impl<Question: Ord, Answer> Remembered<Question, Answer> {
    /// The answer to a question, which `find` finds; that must not hand work to other threads, which may wait for the same answer.
    pub fn of(&self, question: Question, find: impl FnOnce() -> Answer) -> Arc<Answer> {
        let place = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(question).or_default())
        };
        Arc::clone(place.get_or_init(|| Arc::new(find())))
    }
}

impl<Question, Answer> Default for Remembered<Question, Answer> {
    fn default() -> Self {
        Remembered(Mutex::default())
    }
}
