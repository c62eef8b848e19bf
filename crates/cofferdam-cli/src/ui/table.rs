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

/// As [`render`], in `columns` columns: what is too much goes from the end of column `yields`, of which a
/// few columns stay. The other columns are never cut, and a table of them alone may be wider.
pub(crate) fn render_within(
    head: &[&str],
    rows: &[Vec<String>],
    columns: usize,
    yields: usize,
) -> String {
    const LEAST: usize = 12;
    let whole = render(head, rows);
    let widest = whole.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let Some(over) = widest.checked_sub(columns).filter(|&over| over > 0) else {
        return whole;
    };
    let cells = rows.iter().filter_map(|row| row.get(yields));
    let widest = cells.map(|cell| text::printable_line(cell).width()).max();
    let room = widest.unwrap_or(0).saturating_sub(over).max(LEAST);
    let mut rows = rows.to_vec();
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(yields)) {
        *cell = fit(cell, room);
    }
    render(head, &rows)
}

/// At most `width` columns of `text`, on one line.
pub(crate) fn fit(text: &str, width: usize) -> String {
    text::fit(&text::printable_line(text), width).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_gives_way() {
        let rows = vec![
            vec![
                "one".to_owned(),
                "cofferdam/quite-a-long-name".to_owned(),
                "1 d".to_owned(),
            ],
            vec!["two".to_owned(), "main".to_owned(), "12 d".to_owned()],
        ];
        let head = ["NAME", "BRANCH", "AGE"];
        assert_eq!(render_within(&head, &rows, 80, 1), render(&head, &rows));
        let narrow = render_within(&head, &rows, 30, 1);
        assert!(narrow.lines().all(|line| line.width() <= 30), "{narrow}");
        assert!(narrow.contains("one   cofferdam/qui"), "{narrow}");
        // Names are not cut, whatever there is room for.
        assert!(render_within(&head, &rows, 3, 1).contains("one   cofferdam"));
    }

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
