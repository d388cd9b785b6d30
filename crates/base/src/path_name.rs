//! Paths in messages: what a name holds cannot pass for another message, and a name of any length leaves the message readable.

use std::path::Path;

/// The most characters of a path in a message.
const LONGEST: usize = 400;

/// A path as a message shows it: line ends, control characters and characters without a width are escaped, and the middle of a long one is left
/// out.
///
/// ```
/// use perf4sight_base::path_name::display_path;
/// assert_eq!(display_path("nets/new\nnet\u{200b}.onnx"), r"nets/new\nnet\u{200b}.onnx");
/// assert_eq!(display_path("x".repeat(900_000)).chars().count(), 401);
/// ```
pub fn display_path(path: impl AsRef<Path>) -> String {
    let text = path.as_ref().to_string_lossy();
    let count = text.chars().count();
    let text = match count > LONGEST {
        true => {
            let (head, tail) = (text.chars().take(LONGEST / 2), text.chars().skip(count - LONGEST / 2));
            head.chain(['…']).chain(tail).collect()
        }
        false => text.into_owned(),
    };
    text.chars().map(|c| if is_unseen(c) { c.escape_debug().to_string() } else { c.to_string() }).collect()
}

/// Control characters, and characters that have no width or set the direction of writing (Unicode, general categories Cc, Zl, Zp and Cf).
fn is_unseen(c: char) -> bool {
    let is_format = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    is_format || c.is_control() || matches!(c, '\u{2028}'..='\u{202e}')
}
