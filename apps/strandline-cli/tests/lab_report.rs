//! Tests of the report in headless Chromium, from real measurements: on a phone and on a large screen, light
//! and dark. The screenshots are in target/tmp/lab-report-*.

use std::fs;
use std::path::{Path, PathBuf};

use crate::laboratory::Laboratory;

/// Lines over a sweep on a logarithmic scale, in virtual time, beside published numbers.
const LINES: &str = r#"
figure = "Figure 1"
title = "Throughput under loss"
source = "section 1"
shows = "It falls to {sctp.throughput@5} Mbit/s."
differs = "No processor is ever busy."
[network]
kind = "simulator"
link = "rate=10mbit,rtt=20ms"
[runs]
seconds = 2
repetitions = 2
[sweep]
variable = "loss"
values = [0.1, 1, 5]
label = "Packets lost"
unit = "%"
scale = "log"
[[measure]]
name = "throughput"
label = "Throughput"
unit = "Mbit/s"
value = "{/end/sum_received/bits_per_second} / 1e6"
better = "more"
[[series]]
name = "sctp"
title = "Strandline, a SACK for each second packet"
transport = "sctp"
client = "strandline lab simulate --link {link} --to-right loss={loss}% --time {seconds} --seed {seed} --sack-frequency 2"
[[series]]
name = "rare"
title = "Strandline, a SACK for each sixth packet"
transport = "sctp"
client = "strandline lab simulate --link {link} --to-right loss={loss}% --time {seconds} --seed {seed} --sack-frequency 6"
[[series]]
name = "broken"
title = "A simulation that can't begin"
transport = "sctp"
client = "strandline lab simulate --link {link},nonsense --time {seconds}"
[draw]
kind = "lines"
baseline = "rare"
[[published]]
name = "paper"
title = "Another stack of long ago"
transport = "other-sctp"
values = { throughput = { "0.1" = 9, "1" = 5, "5" = 1.2 } }
[[claim]]
says = "Loss costs throughput."
value = "{sctp.throughput@5} / {sctp.throughput@0.1}"
max = 0.95
"#;

/// Grouped bars: TCP and SCTP over the loopback interface, a series with failing operations and one that does
/// nothing.
const BARS: &str = r#"
figure = "Figure 2"
title = "Response times, with runs that don't count"
source = "section 2"
shows = "Both answer."
differs = "One machine."
[network]
kind = "loopback"
[runs]
seconds = 0.2
repetitions = 2
takes = 1
rate-min = 0.5
[sweep]
variable = "rate"
values = [100, 500]
labels = ["100 a second", "500 a second"]
label = "Requests"
[[measure]]
name = "response"
label = "Response time"
unit = "ms"
value = "{/total/p50_ms}"
better = "less"
[[series]]
name = "tcp"
title = "TCP (Linux), persistent with open"
transport = "tcp"
client = "strandline load echo --serve --transport tcp --size 512 --rate {rate} --duration {seconds} --json"
[[series]]
name = "sctp"
title = "Strandline, persistent with open, piggyback"
transport = "sctp"
client = "strandline load echo --serve --transport sctp-many --style piggyback --size 512 --rate {rate} --duration {seconds} --json"
[[series]]
name = "busy"
title = "TCP, on a single connection at a million a second"
transport = "tcp"
client = "strandline load echo --serve --transport tcp --persistent 1 --rate 1000000 --count {rate} --json"
[[series]]
name = "nothing"
title = "A program that fails"
transport = "udp"
client = "false"
[draw]
kind = "bars"
baseline = "tcp"
[[published]]
name = "paper-tcp"
title = "TCP, Linux 2.6.16, persistent with open (0.4 to 0.5 ms)"
transport = "tcp"
values = { response = { "500" = 0.45 } }
[[claim]]
says = "SCTP answers."
value = "{sctp.response@100}"
unit = "ms"
min = 0.001
[[claim]]
own = true
says = "What fails is not measured."
value = "{nothing.response@100}"
min = 1
"#;

/// One run that gives many points, as lines and as a table, beside a single published number.
const EACH: &str = r#"
figure = "Figure 3"
title = "Memory of an association against the size of its gap map"
source = "section 3"
shows = "It grows."
differs = "Nothing."
[network]
kind = "none"
[runs]
seconds = 1
repetitions = 1
[sweep]
variable = "segments"
each = "/gaps"
value = "{/segments}"
label = "Segments beyond the first missing one"
[[measure]]
name = "total"
label = "Association and socket"
unit = "bytes"
value = "{/total}"
better = "less"
[[series]]
name = "sctp"
title = "Strandline, gaps as they are"
transport = "sctp"
client = "strandline load memory --count 10 --gaps 0,1,64,256 --json"
[[series]]
name = "nothing"
title = "What never gives a point"
transport = "udp"
client = "false"
[draw]
kind = "lines"
[[published]]
name = "paper-tcp"
title = "TCP, Linux 2.6.23"
transport = "tcp"
values = { total = 2020 }
"#;

/// Widths of phones and screens, in pixels.
const WIDTHS: [u32; 4] = [320, 390, 768, 1200];

/// Colour schemes, as numbered in the browser's settings, with the resulting background.
const MODES: [(&str, u8, &str); 2] = [("dark", 0, "rgb(20, 28, 38)"), ("light", 1, "rgb(255, 255, 255)")];

#[test]
fn a_browser_shows_the_report_at_every_width() {
    let laboratory = Laboratory::new("browser", LINES);
    laboratory.plan("figure2", BARS);
    laboratory.plan("figure3", EACH);
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert_eq!(code, Some(3), "some runs are to fail, and no others: {told}");
    assert!(told.contains("15 of 36 runs are invalid"), "{told}");
    let (code, scores, _) = laboratory.run(&["report"]);
    assert_eq!(code, Some(0));
    assert!(scores.contains("1 of 1 reproduced"), "{scores}");
    let folder = laboratory.folder.join("lab-report");
    let report = fs::read_to_string(folder.join("index.html")).unwrap();
    for expected in [
        "no valid run",
        "invalid: TCP, on a single connection",
        "invalid run",
        "TCP, Linux 2.6.23, published",
        "What never gives a point: no valid run",
        "no valid run: What never gives a point at 64",
    ] {
        assert!(report.contains(expected), "{expected}");
    }
    let (dom, console) = browse(&folder.join("index.html"), &["--dump-dom"]);
    assert!(dom.contains("Figure 1: Throughput under loss") && dom.contains("<svg"), "{dom}");
    assert_eq!(console, "");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, mode, ground) in MODES {
        let mode = format!("--blink-settings=preferredColorScheme={mode}");
        let page = frames(&folder, &report, &WIDTHS);
        let (dom, console) = browse(&page, &[&mode, "--virtual-time-budget=5000", "--dump-dom"]);
        for width in WIDTHS {
            let expected = format!("frame {width}: 0 pixels too wide, text true, ground {ground}, labels []");
            assert!(dom.contains(&expected), "{expected}: {}", tail(&dom));
        }
        assert_eq!(console, "");
        for width in [390, 1200] {
            let picture = pictures.join(format!("lab-report-{width}-{name}.png"));
            let page = frames(&folder, &report, &[width]);
            let screenshot = format!("--screenshot={}", picture.display());
            let size = format!("--window-size={},5200", width + 20);
            browse(&page, &[&mode, "--hide-scrollbars", "--virtual-time-budget=5000", &size, &screenshot]);
            assert!(fs::metadata(&picture).unwrap().len() > 20_000, "{}", picture.display());
        }
    }
}

/// Returns the DOM of headless Chromium for a file, and the messages of its console.
fn browse(page: &Path, arguments: &[&str]) -> (String, String) {
    crate::browser::browse(&page.with_extension("profile"), &format!("file://{}", page.display()), arguments)
}

/// Writes a page with a report in frames of several widths, with all collapsible parts open. Below each frame
/// is its width, letter height and background, and which labels of its figures are cut off or overlap.
fn frames(folder: &Path, report: &str, widths: &[u32]) -> PathBuf {
    let quoted = serde_json::to_string(report).unwrap().replace("</", "<\\/");
    let script = "const labels = page => {
        const bad = [];
        for (const svg of page.querySelectorAll('figure svg')) {
            const around = svg.getBoundingClientRect();
            if (around.width === 0) continue;
            const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
            boxes.forEach(([text, box], place) => {
                if (box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1)
                    bad.push('cut off: ' + text);
                for (const [other, its] of boxes.slice(place + 1)) {
                    const x = Math.min(box.right, its.right) - Math.max(box.left, its.left);
                    const y = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
                    if (x > 2 && y > 4) bad.push(text + ' over ' + other);
                }
            });
        }
        return bad;
    };
    document.body.style.margin = 0;
    for (const width of widths) {
        const frame = document.createElement('iframe');
        frame.style.cssText = `width: ${width}px; border: 0; display: block`; frame.height = 900;
        frame.onload = () => {
            const page = frame.contentDocument;
            page.querySelectorAll('details').forEach(d => d.open = true);
            const narrow = page.querySelector('.narrow svg').getBoundingClientRect().width > 0;
            const text = page.querySelector((narrow ? '.narrow' : '.wide') + ' svg text').getBoundingClientRect().height;
            const line = document.createElement('p');
            const over = page.documentElement.scrollWidth - page.documentElement.clientWidth;
            const ground = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
            line.textContent = `frame ${width}: ${over} pixels too wide, text ${text > 9}, ground ${ground}, labels ${JSON.stringify(labels(page))}`;
            document.body.append(line);
            if (widths.length == 1) frame.height = page.documentElement.scrollHeight;
        };
        frame.srcdoc = report; document.body.append(frame);
    }";
    let page = folder.join("frames.html");
    let html = format!(
        "<!doctype html><meta charset=utf-8><body><script>const report = {quoted}, widths = {widths:?};{script}</script>"
    );
    fs::write(&page, html).unwrap();
    page
}

fn tail(text: &str) -> &str {
    let start = text.char_indices().rev().nth(3000).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}
