//! Changes at the bounds of what they rest on, for intervals.

use super::StepChange;

/// For each variation what takes the place of each change, none where it stays: one change at a bound at a time, and where several have bounds,
/// all at their first and all at their last.
pub fn variations(changes: &[&dyn StepChange]) -> Vec<Vec<Option<Box<dyn StepChange>>>> {
    let mut all = Vec::new();
    let mut bounded = 0;
    for (place, change) in changes.iter().enumerate() {
        let bounds = change.bounds();
        bounded += usize::from(!bounds.is_empty());
        for bound in bounds {
            let mut own: Vec<Option<Box<dyn StepChange>>> = changes.iter().map(|_| None).collect();
            own[place] = Some(bound);
            all.push(own);
        }
    }
    if bounded > 1 {
        all.push(changes.iter().map(|change| change.bounds().into_iter().next()).collect());
        all.push(changes.iter().map(|change| change.bounds().pop()).collect());
    }
    all
}
