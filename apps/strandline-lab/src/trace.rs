//! `strandline lab trace`: draws a trace of `strandline perf`: when each TSN was sent and acknowledged, and the
//! windows and data in flight over time.

mod draw;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod read;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use strandline_output::{errln, outln};

use self::read::Trace;
use crate::figure::{EXTENSION, Theme, Timeline, escape, paint, picture};

/// Width of drawings in pixels.
const WIDTH: f64 = 1000.0;

/// Arguments of `strandline lab trace`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline perf client 192.0.2.7 -t 10 --trace run.jsonl
  strandline lab trace run.jsonl                           write run.html, with both drawings
  strandline lab trace run.jsonl --from 2.1 --to 2.4       only these 300 ms
  strandline lab trace run.jsonl --format png              write run-sequence.png and run-window.png")]
pub struct TraceArgs {
    /// Trace file, written by `strandline perf client ADDR --trace FILE`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory for the drawings [default: that of the trace]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Format of the drawings
    #[arg(long, value_enum, default_value_t = Format::Html)]
    pub format: Format,
    /// Local SCTP port of the association to draw [default: that with the most data]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Start of the drawn part in seconds
    #[arg(long, default_value_t = 0.0, value_name = "SECS")]
    pub from: f64,
    /// End of the drawn part in seconds [default: the end of the trace]
    #[arg(long, value_name = "SECS")]
    pub to: Option<f64>,
}

/// Format of the drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One page with both drawings, with a light and a dark theme
    Html,
    /// A PNG file for each drawing, on white
    Png,
    /// An SVG file for each drawing
    Svg,
}

/// Draws the trace.
///
/// # Errors
/// If the trace is invalid, or the drawings can't be written.
pub fn run(args: &TraceArgs) -> Result<ExitCode> {
    let trace = Trace::read(&args.file)?;
    if let Some(line) = trace.cut {
        let end = trace.end();
        errln!("lab: {}: line {line} is truncated: drawing up to {end:.3} s", args.file.display());
    }
    let drawn = draw(&trace, args)?;
    let folder = args.output.as_deref().or_else(|| args.file.parent()).unwrap_or(Path::new(""));
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    match args.format {
        Format::Html => write(&folder.join(format!("{stem}.html")), page(&stem, &drawn).as_bytes())?,
        Format::Svg => {
            for (name, drawing) in &drawn {
                let svg = drawing.svg(WIDTH, Theme::Picture);
                write(&folder.join(format!("{stem}-{name}.svg")), svg.as_bytes())?;
            }
        }
        Format::Png => {
            ensure!(
                EXTENSION == "png",
                "this program was built without PNG: use --format svg, or build it with `make build`"
            );
            for (name, drawing) in &drawn {
                let svg = drawing.svg(WIDTH, Theme::Picture);
                write(&folder.join(format!("{stem}-{name}.png")), &picture(&svg)?)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the drawings with their names.
fn draw(trace: &Trace, args: &TraceArgs) -> Result<[(&'static str, Timeline); 2]> {
    let file = args.file.display();
    let busiest = trace.busiest();
    let port = args.port.or(busiest).with_context(|| format!("{file}: the trace contains no DATA"))?;
    let span = (args.from, args.to.unwrap_or(f64::INFINITY));
    let sequence = draw::sequence(trace, port, span);
    ensure!(
        !sequence.is_empty(),
        "{file}: no packets of port {port} between these times; the trace has ports {:?} and ends at {:.3} s",
        trace.ports(),
        trace.end()
    );
    Ok([("sequence", sequence), ("window", draw::window(trace, port, span))])
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)
        .with_context(|| format!("writing {}: does the directory exist?", path.display()))?;
    outln!("{}", path.display());
    Ok(())
}

/// Returns an HTML page that loads nothing else.
fn page(name: &str, drawn: &[(&'static str, Timeline)]) -> String {
    let [light, dark] = paint::variables();
    let name = escape(name);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{name}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n:root{{color-scheme:light dark;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n\
         body{{margin:0 auto;max-width:{WIDTH}px;padding:0 20px;background:var(--ground);color:var(--ink);\
         font:16px/1.55 system-ui,\"DejaVu Sans\",sans-serif}}\nsvg{{display:block;width:100%;height:auto}}\n\
         </style>\n</head>\n<body>\n<h1>{name}</h1>\n"
    );
    for (_, drawing) in drawn {
        let title = escape(&drawing.title);
        html += &format!("<h2>{title}</h2>\n<figure>\n{}\n</figure>\n", drawing.svg(WIDTH, Theme::Page));
    }
    html + "</body>\n</html>\n"
}
