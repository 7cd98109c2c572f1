//! `strandline sip top`: what a server on this host or another does, in the terminal.

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

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// Shows what a server does: phones, rates, response times and overload, looked at every second.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline sip --metrics 127.0.0.1:9090         the server
  strandline sip top                              looks at it; q ends
  strandline sip top 192.0.2.1:9090               at one elsewhere
  strandline sip top --once                       once, as text")]
pub struct Args {
    /// Where the server's metrics are
    #[arg(value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
    pub address: SocketAddr,
    /// Print what there is now and end; so it is if the output is no terminal
    #[arg(long)]
    pub once: bool,
}

/// Shows it until somebody presses q.
///
/// # Errors
/// If there is no server, or no terminal any more.
pub fn run(args: &Args) -> Result<ExitCode> {
    let first = fetch(args.address)?;
    if args.once || !std::io::stdout().is_terminal() {
        out!("{}", draw::text(&first));
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = ratatui::try_init().context("a terminal to draw on")?;
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
                // Its size has changed: it is drawn again.
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
