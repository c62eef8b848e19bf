//! A plain table: columns as wide as their widest cell, two spaces between, no lines.

use cofferdam::text;
use unicode_width::UnicodeWidthStr;

/// Rows below `head`. Every cell is made printable and one line; the last column is not padded.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| text::printable_line(cell)).collect())
        .collect();
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width());
            cells.max().unwrap_or(0).max(title.width())
        })
        .collect();
    let mut out = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(
                ' ',
                width.saturating_sub(cell.width()) + 2,
            ));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// At most `width` columns of `text`, on one line.
pub(crate) fn fit(text: &str, width: usize) -> String {
    text::fit(&text::printable_line(text), width).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_width_not_bytes() {
        let rows = vec![
            vec!["größe".to_owned(), "1".to_owned()],
            vec!["x\ny".to_owned(), "2".to_owned()],
        ];
        assert_eq!(
            render(&["NAME", "N"], &rows),
            "NAME   N\ngröße  1\nx\\ny   2\n"
        );
    }
}
