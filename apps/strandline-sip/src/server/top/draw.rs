//! Renders the activity of a server, as text and in a terminal.

use std::fmt::Write as _;
use std::net::SocketAddr;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use strandline_output::escape;

use crate::server::live::{Live, OtherNode, Second, Share};

/// Maximum number of processes and nodes with a line of their own in a terminal.
const LISTED_MAX: usize = 8;

/// Pairs of a name and a value.
fn rows(live: &Live) -> Vec<(&'static str, String)> {
    let now = live.seconds.last().copied().unwrap_or_default();
    let millis = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2} ms"));
    vec![
        ("registered phones", live.bindings.to_string()),
        ("registered users", live.users.to_string()),
        ("TCP connections", live.connections.to_string()),
        ("SCTP associations", live.associations.to_string()),
        ("transactions", live.transactions.to_string()),
        ("calls/s", format!("{:.1}", now.calls)),
        ("registrations/s", format!("{:.1}", now.registered)),
        ("requests/s", format!("{:.1}", now.requests)),
        ("refused requests/s", format!("{:.1}", now.refused)),
        ("response time, p50", millis(now.p50_ms)),
        ("response time, p99", millis(now.p99_ms)),
        ("store wait, p99", millis(now.commit_p99_ms)),
        ("queued messages", live.waiting.to_string()),
        ("allowed to neighbours", format!("{:.0} %", live.allowed_share * 100.0)),
        ("passed by the kernel", format!("{:.0} %", live.let_through_share * 100.0)),
        ("calls, total", live.totals.calls.to_string()),
        ("registrations, total", live.totals.registered.to_string()),
    ]
}

/// The state in one word, and its colour.
fn state(live: &Live) -> (String, Color) {
    let (missing, gone) = (live.missing(), live.gone());
    let (word, color) = match live {
        Live { store_failing: true, .. } => ("store failing", Color::Red),
        Live { draining: true, .. } => ("draining", Color::Yellow),
        Live { overloaded: true, .. } => ("overloaded", Color::Red),
        _ if missing > 0 => {
            return (format!("{missing} of {} processes not responding", live.processes), Color::Red);
        }
        _ if !gone.is_empty() => return (format!("nodes down: {}", gone.join(", ")), Color::Yellow),
        _ => ("healthy", Color::Green),
    };
    (word.to_owned(), color)
}

fn uptime(live: &Live) -> String {
    let (minutes, secs) = (live.uptime_secs / 60, live.uptime_secs % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    format!("up {hours}:{minutes:02}:{secs:02}")
}

/// The text form, for programs and for output that is not a terminal.
pub(super) fn text(live: &Live) -> String {
    let mut text = format!("{}, {}, {}\n", live.domains.join(", "), state(live).0, uptime(live));
    for (name, value) in rows(live) {
        let _ = writeln!(text, "{name:<24}{value:>14}");
    }
    for line in others(live) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// A line for each of several processes, and for each other node.
fn others(live: &Live) -> Vec<String> {
    let nodes = live.nodes.iter().map(other_node);
    let lines = live.workers.iter().map(share).chain(nodes);
    lines.map(|line| escape(&line).into_owned()).collect()
}

fn other_node(node: &OtherNode) -> String {
    let address = node.address.as_deref().unwrap_or("no address");
    format!("node {}: {}, {address}", node.name, if node.is_alive { "up" } else { "down" })
}

/// The figures of one of several processes.
fn share(one: &Share) -> String {
    let Share { worker, connections, associations, transactions, totals, .. } = one;
    format!(
        "process {worker}: {connections} connections, {associations} associations, {transactions} transactions, {} requests",
        totals.requests
    )
}

/// Draws the activity in a terminal of any size.
pub(super) fn draw(frame: &mut Frame<'_>, address: SocketAddr, live: &Live) {
    let rows = rows(live);
    let lines = rows.len().div_ceil(2) as u16 + 2;
    let others = others(live);
    let [head, numbers, upper, lower, listed, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines),
        Constraint::Min(3),
        Constraint::Min(3),
        Constraint::Length(others.len().min(LISTED_MAX) as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let (word, color) = state(live);
    let title = Line::from(vec![
        Span::raw("Strandline SIP ").bold(),
        Span::raw(escape(&live.domains.join(", ")).into_owned()),
        Span::raw("  "),
        Span::styled(word, Style::new().fg(color).bold()),
    ]);
    frame.render_widget(title, head);
    frame.render_widget(table(&rows), numbers);
    let half = |area: Rect| -> [Rect; 2] { Layout::horizontal([Constraint::Fill(1); 2]).areas(area) };
    let ([calls, phones], [refused, times]) = (half(upper), half(lower));
    let now = live.seconds.last().copied().unwrap_or_default();
    let drawn = |name: &str, value: f64, of: fn(&Second) -> f64, color, area: Rect| {
        spark(live, format!(" {name}: {value:.1} "), of, color, area)
    };
    frame.render_widget(drawn("calls/s", now.calls, |second| second.calls, Color::Blue, calls), calls);
    frame.render_widget(
        drawn("registrations/s", now.registered, |second| second.registered, Color::Green, phones),
        phones,
    );
    frame.render_widget(
        drawn("refused requests/s", now.refused, |second| second.refused, Color::Red, refused),
        refused,
    );
    let p99 = |second: &Second| second.p99_ms.unwrap_or_default() * 1000.0;
    frame.render_widget(drawn("response time p99, us", p99(&now), p99, Color::Yellow, times), times);
    let listed_lines = others.into_iter().take(LISTED_MAX).map(Line::from);
    frame.render_widget(Paragraph::new(listed_lines.collect::<Vec<_>>()), listed);
    let processes = match live.workers.len() {
        0 => String::new(),
        count => format!(", {count} processes"),
    };
    let foot_text = format!("{address}{processes}, {}, last two minutes; q: quit", uptime(live));
    frame.render_widget(Line::from(foot_text).dim(), foot);
}

/// A table with two columns of names and values.
fn table(rows: &[(&'static str, String)]) -> Table<'static> {
    let (left, right) = rows.split_at(rows.len().div_ceil(2));
    let lines = left.iter().enumerate().map(|(number, (name, value))| {
        let (other, its) = right.get(number).map_or(("", ""), |(name, value)| (*name, value));
        Row::new([(*name).to_owned(), value.clone(), other.to_owned(), its.to_owned()])
    });
    let widths = [Constraint::Length(24), Constraint::Fill(1), Constraint::Length(24), Constraint::Fill(1)];
    Table::new(lines, widths).block(Block::bordered())
}

/// A chart of the most recent seconds that fit.
fn spark(live: &Live, title: String, of: fn(&Second) -> f64, color: Color, area: Rect) -> Sparkline<'static> {
    let room = area.width.saturating_sub(2) as usize;
    let from = live.seconds.len().saturating_sub(room);
    let seconds = live.seconds.get(from..).unwrap_or(&[]);
    let data: Vec<u64> = seconds.iter().map(|second| of(second).ceil() as u64).collect();
    Sparkline::default().data(data).style(Style::new().fg(color)).block(Block::bordered().title(title))
}

/// Draws the error of a failed request.
pub(super) fn nothing(frame: &mut Frame<'_>, error: &anyhow::Error) {
    let text = escape(&format!("{error:#}\n\nRetrying; press q to quit.")).into_owned();
    frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), frame.area());
}
