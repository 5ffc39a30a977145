// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables for a terminal: lines that are longer than it is wide lose the middle of their last column, the name.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// A line begins with numbers, which stay whole.
const LEAST: usize = 72;

/// The text as the standard output shows it best: whole, unless that is a terminal. C++ and Rust have names of a thousand
/// letters that say most at both of their ends. Sentences stay whole: a row of a table begins with a number, and they with a
/// letter.
pub fn fitted(text: String) -> String {
    let Some(columns) = columns() else { return text };
    let fit = |line: &str| if line.starts_with(char::is_alphabetic) { line.into() } else { shortened(line, columns) };
    text.lines().flat_map(|line| [fit(line), "\n".into()]).collect()
}

fn columns() -> Option<usize> {
    size(libc::STDOUT_FILENO).map(|(_, columns)| columns)
}

/// Rows and columns; nothing where that is no terminal.
pub fn size(descriptor: c_int) -> Option<(usize, usize)> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the call writes a structure of that type, or nothing; all zeros are one.
    let size =
        unsafe { (libc::ioctl(descriptor, libc::TIOCGWINSZ, size.as_mut_ptr()) == 0).then(|| size.assume_init()) };
    // A terminal that does not know its size says 0.
    size.map(|size| (usize::from(size.ws_row), usize::from(size.ws_col))).filter(|&(_, columns)| columns > 0)
}

/// Whether it hands lines to programs, and not each letter.
pub fn takes_lines(descriptor: c_int) -> bool {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the call fills in a structure of that type, or nothing; all zeros are one.
    let known = unsafe { libc::tcgetattr(descriptor, settings.as_mut_ptr()) } == 0;
    // SAFETY: as above.
    !known || unsafe { settings.assume_init() }.c_lflag & libc::ICANON != 0
}

pub fn shortened(line: &str, columns: usize) -> String {
    let columns = columns.max(LEAST);
    let count = line.chars().count();
    if count <= columns {
        return line.to_owned();
    }
    let end = (columns - 1) / 3;
    let begin = columns - 1 - end;
    line.chars().take(begin).chain(['…']).chain(line.chars().skip(count - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn names_keep_both_ends() {
        let numbers = "   10.00ms 50.00%  50.00%    10.00ms 50.00%  ";
        let name = format!("begin{}end", "é".repeat(100));
        let line = format!("{numbers}{name}");
        let short = shortened(&line, 80);
        assert_eq!(short.chars().count(), 80);
        assert!(
            short.starts_with(&format!("{numbers}begin")) && short.contains('…') && short.ends_with("end"),
            "{short}"
        );
        assert_eq!(shortened(&line, 1).chars().count(), 72);
        assert_eq!(shortened(&line, line.chars().count()), line);
    }
}
