//! Divides items among tasks: groups stay together, and tasks take about equally long.

use perf4sight_verb::WorkItem;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// A killed task costs its own items, and a queue fits short tasks into gaps; starting one takes seconds.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// The number of tasks for items that take this long together, `at_once` of which run at once.
pub(crate) fn count(items: &[WorkItem], at_once: usize) -> usize {
    let all: Duration = items.iter().map(|item| item.time).sum();
    at_once.max((all.as_secs_f64() / LONGEST.as_secs_f64()).ceil() as usize)
}

/// Divides items into at most `count` parts, none of them empty; each part keeps the order of the items.
///
/// Items of a group stay together where there are as many groups as parts; otherwise groups are cut. The longest group
/// goes to the part that is shortest so far (Graham's rule: at most 4/3 of the best division).
pub fn divide(items: &[WorkItem], count: usize) -> Vec<Vec<WorkItem>> {
    let mut groups = groups(items);
    while groups.len() < count {
        let Some(longest) = groups.iter().enumerate().max_by_key(|(at, group)| (group.len(), Reverse(*at))) else {
            break;
        };
        if longest.1.len() < 2 {
            break;
        }
        let mut group = groups.remove(longest.0);
        let rest = group.split_off(group.len().div_ceil(2));
        groups.extend([group, rest]);
    }
    let time = |group: &[usize]| group.iter().map(|&at| items[at].time).sum::<Duration>();
    groups.sort_by_key(|group| (Reverse(time(group)), group.first().copied()));
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); count.min(groups.len())];
    for group in groups {
        let shortest = parts.iter_mut().min_by_key(|part| (time(part), part.len()));
        shortest.into_iter().for_each(|part| part.extend(&group));
    }
    parts.iter_mut().for_each(|part| part.sort_unstable());
    parts.into_iter().map(|part| part.into_iter().map(|at| items[at].clone()).collect()).collect()
}

/// The indices of the items of each group, in the order in which the groups begin.
fn groups(items: &[WorkItem]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    items.iter().enumerate().for_each(|(at, item)| groups.entry(&item.group).or_default().push(at));
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: usize, group: usize, seconds: u64) -> WorkItem {
        WorkItem { name: name.to_string(), group: group.to_string(), time: Duration::from_secs(seconds) }
    }

    fn names(parts: &[Vec<WorkItem>]) -> Vec<Vec<&str>> {
        parts.iter().map(|part| part.iter().map(|item| item.name.as_str()).collect()).collect()
    }

    #[test]
    fn groups_stay_together_and_the_longest_goes_first() {
        // Groups of 3, 4, 5 s, two items each; by hand: {5} and {4, 3}.
        let items: Vec<WorkItem> =
            [0, 1, 2, 0, 1, 2].iter().zip(0..).map(|(&group, name)| item(name, group, 3 + group as u64)).collect();
        assert_eq!(names(&divide(&items, 2)), [vec!["2", "5"], vec!["0", "1", "3", "4"]]);
    }

    #[test]
    fn every_item_is_in_one_part_and_no_part_is_empty() {
        for (count, of_group, parts) in [(7, 7, 3), (300, 3, 16), (2, 1, 5), (0, 1, 4), (9, 4, 9)] {
            let items: Vec<WorkItem> = (0..count).map(|name| item(name, name / of_group, 0)).collect();
            let divided = divide(&items, parts);
            let mut all: Vec<WorkItem> = divided.concat();
            all.sort_by_key(|item| item.name.parse::<usize>().unwrap_or_default());
            assert_eq!(all, items);
            assert_eq!(divided.len(), parts.min(count), "{count} items in {parts} parts");
            assert!(divided.iter().all(|part| !part.is_empty()));
        }
    }

    #[test]
    fn a_task_takes_half_an_hour_at_most_where_items_are_shorter() {
        let items: Vec<WorkItem> = (0..100).map(|name| item(name, name, 60)).collect();
        assert_eq!([count(&items, 2), count(&items, 16), count(&[], 3)], [4, 16, 3]);
    }
}
