//! Shortens names of events.

/// The maximum length of a name in a table.
const ROOM: usize = 80;

/// A name for a table: of a path only the last folder and the file; cut if it is too long.
pub fn brief(name: &str) -> String {
    let name = match name.split_once(": ").filter(|(place, _)| place.ends_with(')')) {
        Some((place, function)) => format!("{}: {function}", tail(place)),
        None => name.to_owned(),
    };
    cut(&name, ROOM)
}

/// A name for a box: a Python function before its file, and only the name of a built-in function.
pub fn briefest(name: &str) -> String {
    if let Some((place, function)) = name.split_once(": ").filter(|(place, _)| place.ends_with(')')) {
        let file = place.rsplit(['/', '\\']).next().unwrap_or(place);
        return format!("{function} ({})", file.trim_end_matches(')').replace('(', ":"));
    }
    let call =
        ["<built-in method ", "<built-in function ", "<method "].iter().find_map(|known| name.strip_prefix(known));
    match call {
        Some(call) => call.split(" of ").next().unwrap_or(call).trim_matches(['\'', '>']).to_owned(),
        None => name.strip_prefix("nn.Module: ").unwrap_or(name).to_owned(),
    }
}

fn tail(path: &str) -> &str {
    path.rmatch_indices(['/', '\\']).nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

pub fn cut(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_last_words() {
        let linear = "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py(134): forward";
        assert_eq!(brief(linear), "modules/linear.py(134): forward");
        assert_eq!(briefest(linear), "forward (linear.py:134)");
        assert_eq!(brief("train.py(1): <module>"), "train.py(1): <module>");
        assert_eq!(briefest("<built-in method run_backward of torch._C._EngineBase object>"), "run_backward");
        assert_eq!(briefest("<method 'acquire' of '_thread.lock' objects>"), "acquire");
        assert_eq!(briefest("nn.Module: Linear_0"), "Linear_0");
        assert_eq!(brief("void at::native::f<int>(int): more"), "void at::native::f<int>(int): more");
        assert_eq!(brief(&"é".repeat(100)).chars().count(), ROOM + 1);
    }
}
