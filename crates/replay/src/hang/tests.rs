//! Dumps by hand, whose hang is known from how they were made.

use super::*;
use crate::inputs::FlightEntry;

fn entry(name: &str, number: u64, state: &str) -> FlightEntry {
    FlightEntry {
        process_group: ("0".to_owned(), "default_pg".to_owned()),
        collective_seq_id: number,
        p2p_seq_id: number,
        profiling_name: format!("nccl:{name}"),
        state: state.to_owned(),
        is_p2p: name.contains("->") || name.contains("<-") || name == "coalesced",
        input_sizes: vec![vec![64]],
        ..FlightEntry::default()
    }
}

/// Dumps of the first ranks of a job, each with an operation that ended and then these, each with its state.
fn dumps(ranks: u32, own: &[&[(&str, &str)]]) -> Vec<FlightDump> {
    let dump = |(rank, own): (usize, &&[(&str, &str)])| {
        let own = own.iter().zip(2..).map(|((name, state), number)| entry(name, number, state));
        FlightDump {
            rank: rank as u32,
            file: format!("nccl_trace_rank_{rank}").into(),
            version: "2.10".to_owned(),
            entries: [entry("all_reduce", 1, "completed")].into_iter().chain(own).collect(),
            groups: if ranks > 0 { BTreeMap::from([("0".to_owned(), (0..ranks).collect())]) } else { BTreeMap::new() },
            damaged: 0,
        }
    };
    own.iter().enumerate().map(dump).collect()
}

fn headline(ranks: u32, own: &[&[(&str, &str)]]) -> String {
    HangReport::from_dumps(&dumps(ranks, own)).headline().unwrap()
}

const WAITS: &[(&str, &str)] = &[("all_reduce", "started")];
const UNTIMED: &[(&str, &str)] = &[("all_reduce", "scheduled")];

#[test]
fn ranks_without_a_dump_are_not_there() {
    let hang = HangReport::from_dumps(&dumps(3, &[WAITS, WAITS]));
    assert_eq!((&hang.blocked[0].silent, hang.blocked[0].missing.len()), (&BTreeSet::from([2]), 0));
    assert_eq!(
        hang.headline().unwrap(),
        "ranks 0 and 1 wait in all_reduce 2 of group default_pg; rank 2 is not there: no dump of it, so that it died, hangs elsewhere, or the file is missing"
    );
    // One more that lives and has not come.
    let hang = HangReport::from_dumps(&dumps(4, &[WAITS, WAITS, &[]]));
    assert_eq!((&hang.blocked[0].silent, &hang.culprits), (&BTreeSet::from([3]), &BTreeSet::from([2])));
    assert_eq!(
        hang.headline().unwrap(),
        "rank 2 has not come to all_reduce 2 of group default_pg, in which ranks 0 and 1 wait; the last of rank 2 in that group is all_reduce 1; whether rank 3 came is not known, for there is no dump of it"
    );
}

#[test]
fn what_a_damaged_dump_does_not_show_is_said() {
    let mut dumps = dumps(2, &[WAITS, &[]]);
    dumps[1].damaged = 1;
    let headline = HangReport::from_dumps(&dumps).headline().unwrap();
    assert!(headline.ends_with("rank 1 in that group is all_reduce 1, as far as its dump could be read"), "{headline}");
}

#[test]
fn a_link_is_blamed_only_where_all_ranks_are_known_to_have_come() {
    assert!(headline(2, &[WAITS, WAITS]).contains("which all ranks of the group have enqueued: a link or a GPU fails"));
    let unknown = headline(0, &[WAITS, WAITS]);
    assert!(unknown.contains("no dump tells which ranks belong to it") && !unknown.contains("link"), "{unknown}");
    let behind = headline(3, &[&[("all_reduce", "scheduled")], WAITS, WAITS]);
    assert!(behind.contains("which rank 0 has enqueued and not begun: an earlier kernel"), "{behind}");
    // Without timing nothing is known to have begun.
    assert!(headline(2, &[UNTIMED, UNTIMED]).contains("a link or a GPU fails"));
}

/// Three ranks gather 10 elements each, as the recorder of gloo writes them, whose groups it does not configure.
#[test]
fn what_all_ranks_gather_tells_how_many_there_are() {
    let mut dumps = dumps(0, &[WAITS, WAITS]);
    let first = &mut dumps[0].entries[0];
    first.profiling_name = "gloo:all_gather".to_owned();
    (first.input_sizes, first.output_sizes) = (vec![vec![10]], vec![vec![3, 10]]);
    dumps[1].entries.remove(0);
    let hang = HangReport::from_dumps(&dumps);
    assert_eq!((&hang.blocked[0].silent, &hang.silent), (&BTreeSet::from([2]), &BTreeSet::from([2])));
    dumps[0].entries[0].output_sizes = vec![vec![u64::MAX]];
    assert!(HangReport::from_dumps(&dumps).silent.is_empty());
}

#[test]
fn ranks_with_another_operation_do_not_wait_in_it() {
    assert_eq!(
        headline(4, &[WAITS, WAITS, &[("broadcast", "started")], &[]]),
        "ranks 0 and 1 wait in all_reduce 2 of group default_pg, under whose number rank 2 enqueued broadcast; rank 3 has not come to it"
    );
    // One that ended does not hang: rank 2 alone waits.
    let ended: &[(&str, &str)] = &[("all_reduce", "completed")];
    assert_eq!(
        headline(3, &[ended, ended, &[("broadcast", "started")]]),
        "rank 2 waits in broadcast 2 of group default_pg, under whose number rank 0 enqueued all_reduce, rank 1 enqueued all_reduce"
    );
}

/// Rank 0 sends to 1, which receives from 2, which does nothing.
#[test]
fn transfers_wait_for_the_other_end_along_the_chain() {
    let own: [&[_]; 3] = [&[("send 0->1", "started")], &[("recv 1<-2", "started")], &[]];
    let hang = HangReport::from_dumps(&dumps(3, &own));
    assert_eq!(hang.culprits, BTreeSet::from([2]));
    assert_eq!(
        hang.headline().unwrap(),
        "rank 1 waits in recv 1<-2 of group default_pg, for which rank 2 has enqueued no send; rank 0 waits for rank 1 in send 0->1 of group default_pg"
    );
    let circle = headline(2, &[&[("recv 0<-1", "started")], &[("recv 1<-0", "started")]]);
    assert!(circle.contains("; the ranks wait for each other; "), "{circle}");
    let both = headline(2, &[&[("send 0->1", "started")], &[("recv 1<-0", "started")]]);
    assert!(both.starts_with("ranks 0 and 1 wait in send 0->1 of group default_pg, which sender and receiver have"));
    let dead = headline(2, &[&[("send 0->1", "started")]]);
    assert!(dead.contains("rank 0 waits in send") && dead.contains("rank 1 is not there: no dump of it"), "{dead}");
    let unknown = {
        let mut dumps = dumps(0, &[&[("send 0->1", "started")]]);
        dumps[0].entries.iter_mut().for_each(|entry| entry.process_group = ("7".to_owned(), String::new()));
        HangReport::from_dumps(&dumps).headline().unwrap()
    };
    assert!(unknown.contains("no dump tells which ranks belong to it"), "{unknown}");
}

/// A small message is sent when it lies in the receiver's buffer.
#[test]
fn a_send_that_ended_is_there() {
    let own: [&[_]; 2] = [&[("send 0->1", "completed")], &[("recv 1<-0", "started")]];
    assert_eq!(
        headline(2, &own),
        "rank 1 waits in recv 1<-0 of group default_pg, which sender and receiver have enqueued: a link or a GPU fails, or an earlier kernel does not end"
    );
    // Of a recorder that has forgotten some it is not known which one that is.
    let mut dumps = dumps(2, &own);
    dumps[0].entries.iter_mut().for_each(|entry| entry.record_id = 900);
    assert!(HangReport::from_dumps(&dumps).headline().unwrap().contains("rank 0 has enqueued no send"));
}

/// What was enqueued together ends with the entry for all of it.
#[test]
fn batches_of_transfers_that_ended_do_not_hang() {
    let mut dumps =
        dumps(2, &[&[("send 0->1", "scheduled"), ("recv 0<-1", "scheduled"), ("coalesced", "completed")], &[]]);
    dumps[0].entries.iter_mut().for_each(|entry| entry.p2p_seq_id = 1);
    assert_eq!(HangReport::from_dumps(&dumps).headline(), None);
}

/// In a group of its own, numbers of sends are those of the group: 0->1 is from rank 1 to rank 2.
#[test]
fn peers_are_ranks_of_the_job() {
    let mut dumps = dumps(3, &[&[], &[("send 0->1", "started")], &[]]);
    for dump in &mut dumps[1..] {
        dump.groups.insert("7".to_owned(), BTreeSet::from([1, 2]));
        dump.entries.iter_mut().filter(|entry| entry.is_p2p).for_each(|entry| entry.process_group.0 = "7".to_owned());
    }
    let hang = HangReport::from_dumps(&dumps);
    assert_eq!(hang.blocked[0].missing.keys().copied().collect::<Vec<_>>(), [2]);
}

/// Ranks 0 and 1 wait for all, and rank 2 for rank 3 in a group of the two: that one is the cause, with a dump or without.
#[test]
fn a_rank_that_waits_itself_is_not_blamed_for_the_one_it_waits_for() {
    for has_dump in [true, false] {
        let mut dumps = dumps(4, &[WAITS, WAITS, WAITS, &[]]);
        dumps[2..].iter_mut().for_each(|dump| _ = dump.groups.insert("7".to_owned(), BTreeSet::from([2, 3])));
        dumps[2].entries[1].process_group = ("7".to_owned(), "tp".to_owned());
        dumps.truncate(if has_dump { 4 } else { 3 });
        let headline = HangReport::from_dumps(&dumps).headline().unwrap();
        let cause = if has_dump {
            "rank 3 has not come to all_reduce 2 of group tp, in which rank 2 waits; "
        } else {
            "rank 2 waits in all_reduce 2 of group tp; rank 3 is not there: no dump of it"
        };
        assert!(headline.starts_with(cause), "{headline}");
        let ends = "; ranks 0 and 1 wait for ranks 2 and 3 in all_reduce 2 of group default_pg";
        assert!(headline.ends_with(ends), "{headline}");
    }
}

/// Rank 2, to which ranks 0 and 1 wait, waits in an operation to which all of its group came; rank 3 left no dump.
#[test]
fn where_one_of_the_awaited_waits_is_said() {
    let mut dumps = dumps(5, &[WAITS, WAITS, WAITS, &[], WAITS]);
    dumps.remove(3);
    for dump in &mut dumps[2..] {
        dump.groups.insert("7".to_owned(), BTreeSet::from([2, 4]));
        dump.entries[1].process_group = ("7".to_owned(), "tp".to_owned());
    }
    let headline = HangReport::from_dumps(&dumps).headline().unwrap();
    assert!(headline.starts_with("ranks 2 and 4 have not come to all_reduce 2 of group default_pg"), "{headline}");
    assert!(headline.ends_with("; ranks 2 and 4 wait in all_reduce 2 of group tp"), "{headline}");
}
