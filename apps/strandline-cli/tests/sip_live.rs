//! Tests of the live page of `strandline sip`, in a browser, and of its data.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::browser::browse;
use crate::sip_generator::unrefused;
use crate::sip_server::{PROGRAM, Server};
use crate::waiting::{at_last, found_at_last};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sip-live-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn live(server: &Server) -> Value {
    serde_json::from_str(body(&server.metrics("/live.json"))).unwrap()
}

/// A user registers with two phones.
fn register_two_phones(server: &Server) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let from = socket.local_addr().unwrap();
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKtwo\r\nMax-Forwards: 70\r\n\
         From: <sip:desk@example.com>;tag=t\r\nTo: <sip:desk@example.com>\r\nCall-ID: two\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:desk@{from}>, <sip:desk@192.0.2.9>\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(register.as_bytes(), server.address("udp")).unwrap();
    let mut answer = [0; 2000];
    let len = socket.recv(&mut answer).unwrap();
    assert!(answer[..len].starts_with(b"SIP/2.0 200 "), "{}", String::from_utf8_lossy(&answer[..len]));
}

/// A server with 50 phones over TCP that have called one another, and a user with two more, once it has told
/// of a second in which there were calls.
fn busy_server(folder: &std::path::Path) -> Server {
    let store = folder.join("sip.db");
    let server = Server::start(&["--metrics", "127.0.0.1:0", "--store", store.to_str().unwrap()]);
    let to = server.address("tcp").to_string();
    let calls =
        ["load", "sip", "call", "--transport", "tcp", "--users", "50", "--sources", "50", "--time", "0.5"];
    // On a busy host the server may be overloaded.
    found_at_last("calls", || {
        let load =
            Command::new(PROGRAM).args(calls).args(["--warm-up", "0", "--server", &to]).output().unwrap();
        if load.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&load.stderr).into_owned()) }
    });
    register_two_phones(&server);
    at_last("a second with calls, and no overload", || {
        let live = live(&server);
        let has_calls =
            live["seconds"].as_array().unwrap().iter().any(|second| second["calls"].as_f64() > Some(0.0));
        has_calls && live["overloaded"] == false
    });
    server
}

#[test]
fn it_tells_what_goes_on() {
    let server = busy_server(&folder("json"));
    let live = live(&server);
    assert_eq!((&live["users"], &live["overloaded"]), (&51.into(), &false.into()), "{live}");
    assert_eq!(live["bindings"], 52, "{live}");
    assert!(
        live["totals"]["calls"].as_u64() > Some(0) && live["totals"]["registered"].as_u64() >= Some(51),
        "{live}"
    );
    assert!(server.metrics("/metrics").contains("\nstrandline_sip_bindings 52\n"));
    let seconds = live["seconds"].as_array().unwrap();
    for field in ["p50_ms", "p99_ms", "commit_p99_ms"] {
        assert!(seconds.iter().any(|second| second[field].as_f64() > Some(0.0)), "{field}: {live}");
    }
    // The page loads nothing else.
    let page = server.metrics("/");
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html") && page.contains("default-src 'none'")
    );
    // The namespace of SVG is not an address to load.
    let addresses = body(&page).replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("http://") && !addresses.contains("https://"));
    assert!(server.metrics("/live.html").starts_with("HTTP/1.1 404"));
    // HEAD returns no body, and unsupported methods are reported.
    let head = server.metrics_by("HEAD", "/");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body(&page).len())), "{head}");
    let put = server.metrics_by("PUT", "/metrics");
    assert!(put.starts_with("HTTP/1.1 405 ") && put.contains("\r\nAllow: GET, HEAD\r\n"), "{put}");
    assert!(server.metrics_by("%\u{7f}", "/").starts_with("HTTP/1.1 400 "));
}

#[test]
fn top_prints_text_without_a_terminal() {
    let server = busy_server(&folder("top"));
    let top = |address: &str| Command::new(PROGRAM).args(["sip", "top", address]).output().unwrap();
    let address = server.url("").replace("http://", "");
    let output = top(&address);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("example.com, healthy, up 0:0"), "{text}");
    for shown in [&["registered", "phones", "52"][..], &["registered", "users", "51"]] {
        assert!(text.lines().any(|line| line.split_whitespace().eq(shown.iter().copied())), "{text}");
    }
    let told = |output: std::process::Output| {
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // Something else listens at the address, or nothing.
    let phones = server.address("tcp").to_string();
    assert!(told(top(&phones)).contains(&phones));
    drop(server);
    assert!(told(top(&address)).contains("is a SIP server running there with --metrics"));
}

#[test]
fn the_demonstration_has_phones_over_all_transports() {
    let arguments = ["demo", "sip", "--json", "--phones", "20", "--rate", "50", "--time", "0.5"];
    // A busy host makes the server refuse some calls.
    let report = found_at_last("a demonstration in which nothing is refused", || {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
        let mut transports = report["transports"].as_array().unwrap().iter();
        if transports.any(|transport| transport["refused"] != 0) {
            return Err(report.to_string());
        }
        assert!(output.status.success(), "{told}");
        Ok(report)
    });
    assert_eq!(report["registered"], 60, "{report}");
    for transport in report["transports"].as_array().unwrap() {
        assert!(transport["succeeded"].as_u64() > Some(0), "{report}");
        assert_eq!(transport["succeeded"], transport["begun"], "{report}");
    }
    let output = Command::new(PROGRAM).args(["demo", "sip", "--phones", "1"]).output().unwrap();
    assert!(
        !output.status.success()
            && String::from_utf8_lossy(&output.stderr).contains("--phones must be at least 2")
    );
}

/// Where phones fail, the demo has said why.
#[test]
fn the_demonstration_shows_why_its_phones_failed() {
    let few = format!("ulimit -n 100; exec {PROGRAM} demo sip --once --phones 500 --rate 50 --time 0.3");
    let output = Command::new("sh").args(["-c", &few]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let [why, failed] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(why.contains("open files") || why.contains("Too many"), "{told}");
    assert!(failed.contains("failed (exit status: 1): see the message above"), "{told}");
}

/// In a terminal, the demo's phones run until Ctrl-C, which reaches all its processes.
#[test]
fn the_demonstration_ends_quietly_with_ctrl_c() {
    // script(1) provides a terminal with this input.
    let command = format!("trap : INT; {PROGRAM} demo sip --phones 20 --rate 50 --time 0.3; echo code $?");
    // On a busy host the server may refuse all calls over a transport, and the demo ends.
    let (mut terminal, lines, going_on) = found_at_last("phones keep calling", || {
        let mut terminal = Command::new("script")
            .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told = Vec::new();
        let is_it = |line: &String| {
            told.push(line.clone());
            line.contains("Phones keep calling")
        };
        match lines.by_ref().find(is_it) {
            Some(line) => Ok((terminal, lines, line)),
            None => {
                terminal.wait().unwrap();
                Err(told.join("\n"))
            }
        }
    });
    let page = going_on.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    // The earlier phones have ended; new ones register and call.
    let live = || -> Value {
        let mut stream = TcpStream::connect(&page).unwrap();
        stream.write_all(b"GET /live.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let calls = |live: &Value| live["connections"].as_u64().unwrap() + live["associations"].as_u64().unwrap();
    // Each has one contact: those of the earlier phones are gone.
    found_at_last("other phones are there", || {
        let live = live();
        let is_so = calls(&live) >= 40 && live["users"] == 60 && live["bindings"] == 60;
        if is_so { Ok(()) } else { Err(live.to_string()) }
    });
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    // A busy host makes the server refuse some calls, which it logs.
    let is_told = |line: &String| !line.is_empty() && !line.contains("reason=\"overload\"");
    let told: Vec<String> = lines.map(|line| line.trim_end().replace("^C", "")).filter(is_told).collect();
    assert_eq!(told, ["code 0"]);
    terminal.wait().unwrap();
}

#[test]
fn a_browser_shows_it_at_every_width() {
    let folder = folder("browser");
    let server = busy_server(&folder);
    let (dom, console) =
        browse(&folder.join("profile"), &server.url("/"), &["--virtual-time-budget=3000", "--dump-dom"]);
    for shown in ["example.com", "healthy", "Registered phones", ">52 <", "contacts of 51 users", "<polyline"]
    {
        assert!(dom.contains(shown), "{shown}: {dom}");
    }
    let scales: Vec<&str> = dom.split("class=\"ticks\">").skip(1).collect();
    assert_eq!(scales.len(), 3, "{dom}");
    for (scale, unit) in scales.iter().zip(["/s", "ms", "/s"]) {
        assert!(is_scale(scale, unit), "{unit}: {scale}");
    }
    assert_eq!(console, "");
    let page = body(&server.metrics("/")).to_owned();
    let live = body(&server.metrics("/live.json")).to_owned();
    let overloaded = live.replace("\"overloaded\":false", "\"overloaded\":true");
    let failing = live.replace("\"store_failing\":false", "\"store_failing\":true");
    assert!(live.contains("\"processes\":1"), "{live}");
    let silent = live.replace("\"processes\":1", "\"processes\":3");
    let gone = "\"processes\":1,\"nodes\":[{\"name\":\"b\",\"address\":null,\"is_alive\":false},\
                {\"name\":\"c\",\"address\":\"tcp:192.0.2.3:5060\",\"is_alive\":true}]";
    let gone = live.replace("\"processes\":1", gone);
    // Colour schemes as in the browser's settings: 0 is dark, 1 is light.
    for (mode, ground) in [(0, "rgb(16, 23, 31)"), (1, "rgb(244, 246, 248)")] {
        let mode = format!("--blink-settings=preferredColorScheme={mode}");
        for (live, state) in [
            (&live, "healthy"),
            (&overloaded, "overloaded: 0/s refused"),
            (&failing, "store failing: registrations get 503"),
            (&silent, "3 of 3 processes not responding"),
            (&gone, "nodes down: b"),
        ] {
            let file = folder.join("frames.html");
            fs::write(&file, frames(&page, live)).unwrap();
            let url = format!("file://{}", file.display());
            let (dom, console) =
                browse(&folder.join("profile"), &url, &[&mode, "--virtual-time-budget=3000", "--dump-dom"]);
            for (width, tiles, charts) in LAYOUTS {
                let expected = format!(
                    "frame {width}: 0 pixels too wide, tiles {tiles}, charts {charts}, ground {ground}, {state}"
                );
                assert!(dom.contains(&expected), "{expected}: {dom}");
            }
            assert!(dom.contains("rows with gaps at: none;"), "{dom}");
            assert_eq!(console, "");
        }
    }
}

/// Returns whether a chart's scale is a number with its unit, half of it, and 0.
fn is_scale(scale: &str, unit: &str) -> bool {
    let ticks = scale.split("</div>").next().unwrap().split("</span>");
    let ticks: Vec<&str> = ticks.filter_map(|tick| tick.strip_prefix("<span>")).collect();
    let value = |tick: &str| {
        let number = tick.strip_suffix(unit)?.strip_suffix(' ')?.replace(',', "");
        number.parse::<f64>().ok().filter(|number| *number > 0.0)
    };
    let [high, half, "0"] = ticks[..] else { return false };
    value(high).is_some() && value(high) == value(half).map(|half| 2.0 * half)
}

/// Widths of the page, and how many cards are in each row there.
const LAYOUTS: [(u32, &str, &str); 7] = [
    (320, "1+1+1+1+1+1+1+1", "1+1+1"),
    (375, "2+2+2+2", "1+1+1"),
    (400, "2+2+2+2", "1+1+1"),
    (768, "4+4", "1+1+1"),
    (900, "4+4", "1+1+1"),
    (1200, "4+4", "3"),
    (1400, "4+4", "3"),
];

/// The page in frames of several widths, with an answer of the server's in place of asking it; below each
/// stands what it looks like after that.
fn frames(page: &str, live: &str) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap().replace("</", "<\\/");
    let told = format!("<script>window.fetch = async () => ({{ json: async () => ({live}) }});</script>");
    let page = quoted(&page.replacen("<head>", &format!("<head>{told}"), 1));
    let widths = LAYOUTS.map(|(width, ..)| width);
    format!(
        "<!doctype html><body><script>const page = {page};
        const rows = (inside, id) => {{
            const counts = new Map();
            for (const card of inside.getElementById(id).children) counts.set(card.offsetTop, (counts.get(card.offsetTop) ?? 0) + 1);
            return [...counts.values()];
        }};
        const isRagged = counts => counts.some(count => count !== counts[0]);
        for (const width of {widths:?}) {{
            const frame = document.createElement('iframe');
            frame.style.width = width + 'px'; frame.style.border = 0; frame.height = 900;
            frame.onload = () => setTimeout(() => {{
                const inside = frame.contentDocument;
                const line = document.createElement('p');
                const over = inside.documentElement.scrollWidth - inside.documentElement.clientWidth;
                const ground = frame.contentWindow.getComputedStyle(inside.body).backgroundColor;
                const [tiles, charts] = ['tiles', 'charts'].map(id => rows(inside, id).join('+'));
                const state = inside.getElementById('state').textContent;
                line.textContent = `frame ${{width}}: ${{over}} pixels too wide, tiles ${{tiles}}, charts ${{charts}}, ground ${{ground}}, ${{state}}`;
                document.body.append(line);
                if (width !== 1400) return;
                const ragged = [];
                for (let other = 260; other <= 1400; other += 20) {{
                    frame.style.width = other + 'px';
                    if (['tiles', 'charts'].some(id => isRagged(rows(inside, id)))) ragged.push(other);
                }}
                const all = document.createElement('p');
                all.textContent = `rows with gaps at: ${{ragged.join(', ') || 'none'}};`;
                document.body.append(all);
            }}, 100);
            frame.srcdoc = page; document.body.append(frame);
        }}</script>"
    )
}

#[test]
fn stalled_metrics_reader_delays_nobody() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(server.metrics_address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // More clients than are served at once: some sent a request and read nothing, some never complete their
    // request.
    let stalled: Vec<TcpStream> = (0..30)
        .flat_map(|_| [ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), ask("GET /metrics HTT")])
        .collect();
    let to = server.address("tcp").to_string();
    let calls = ["load", "sip", "call", "--transport", "tcp", "--users", "20", "--sources", "20", "--json"];
    let report = unrefused(|| {
        Command::new(PROGRAM)
            .args(calls)
            .args(["--rate", "50", "--time", "1", "--warm-up", "0", "--server", &to])
            .output()
            .unwrap()
    });
    assert!(report["begun"].as_u64() > Some(20), "{report}");
    // Once they are closed, others are served.
    drop(stalled);
    assert!(server.metrics("/metrics").contains("strandline_sip_calls_total "));
}

/// Returns the child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Returns whether a process is running; a zombie is not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn killed_demo_takes_its_programs_along() {
    let mut demo = Command::new(PROGRAM)
        .args(["demo", "sip", "--phones", "20", "--rate", "10", "--time", "100", "--json"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = demo.id();
    at_last("a server and three loads are there", || children(pid).len() == 4);
    let started = children(pid);
    let folder = std::env::temp_dir().join(format!("strandline-demo-sip-{pid}"));
    assert!(folder.join("sip.db").exists());
    demo.kill().unwrap();
    demo.wait().unwrap();
    at_last("all have ended", || !started.iter().any(|child| runs(*child)));
    assert!(!folder.exists(), "the server has removed it");
}
