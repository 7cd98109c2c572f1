//! `strandline sip top`: shows the activity of a server in the terminal.

mod draw;
mod fetch;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use fetch::fetch;
use strandline_output::out;

/// Interval between queries.
const EVERY: Duration = Duration::from_secs(1);

/// Shows a server's activity: phones, rates, response times and overload, updated every second.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline sip --metrics 127.0.0.1:9090         start the server
  strandline sip top                              show it; press q to quit
  strandline sip top 192.0.2.1:9090               show a server on another host
  strandline sip top --once                       print the state once, as text")]
pub struct Args {
    /// Address of the server's metrics
    #[arg(value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
    pub address: SocketAddr,
    /// Print the current state and exit; this is also done if the output is not a terminal
    #[arg(long)]
    pub once: bool,
}

/// Shows the activity until `q` is pressed.
///
/// # Errors
/// Returns an error if the server can't be reached, or the terminal fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let first = fetch(args.address)?;
    if args.once || !std::io::stdout().is_terminal() {
        out!("{}", draw::text(&first));
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = ratatui::try_init().context("setting up the terminal")?;
    let shown = show(args.address, &mut terminal);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

#[allow(clippy::disallowed_methods, reason = "it looks at a server every second")]
fn show(address: SocketAddr, terminal: &mut DefaultTerminal) -> Result<()> {
    loop {
        let next = Instant::now() + EVERY;
        let live = fetch(address);
        terminal.draw(|frame| match &live {
            Ok(live) => draw::draw(frame, address, live),
            Err(error) => draw::nothing(frame, error),
        })?;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            if !event::poll(wait)? {
                break;
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press && ends(key.code, key.modifiers) => {
                    return Ok(());
                }
                // After a resize, draw again.
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
}

fn ends(code: KeyCode, modifiers: KeyModifiers) -> bool {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
