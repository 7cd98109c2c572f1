//! The tables as text, with published and measured figures side by side.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::measure::{Case, IN_UDP, ON_RAW_IP, Results};
use super::published::{Published, Times};
use crate::job::{Style, Transport};
use crate::report::{bar, thousands};
use crate::trace::Steps;

const BAR: usize = 24;

pub(crate) fn print(published: &Published, results: &Results, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nAfter Ono and Schulzrinne, \"The Impact of SCTP on Server Scalability and Performance\" (2008). Published: \
         the\nkernel's SCTP and TCP on a Pentium IV, clients over 100 Mb/s Ethernet (RTT 0.1 ms). Measured: Strandline \
         and this\nkernel's TCP and UDP over the loopback interface, server and client processes sharing {} cores.",
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    )?;
    table4(published, results, out)?;
    table5(published, results, out)?;
    table6(published, results, out)?;
    if let Some(reason) = &results.raw_left_out {
        writeln!(out, "\nRaw IP was skipped: {reason}")?;
    }
    next(out)
}

fn table4(published: &Published, results: &Results, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nTable 4: associations held, and the server's memory for each")?;
    writeln!(out, "{:<20}{:>22}{:>12}{:>14}", "", "published", "", "measured")?;
    writeln!(out, "{:<20}{:>12}{:>10}{:>12}{:>14}", "", "sustainable", "KB each", "held", "KB each")?;
    let rows = [
        (&published.table4.one_to_one, Transport::Sctp, Style::Regular, IN_UDP),
        (&published.table4.one_to_many, Transport::SctpMany, Style::Piggyback, IN_UDP),
        (&published.table4.tcp, Transport::Tcp, Style::Regular, None),
    ];
    for (paper, transport, style, encapsulation) in rows {
        let Some(case) = results.case(transport, style, encapsulation) else { continue };
        let Some(memory) = case.memory else { continue };
        let kilobytes = (memory.process_bytes + memory.kernel_bytes) / 1000.0;
        let graph = bar(kilobytes, published.table4.one_to_one.memory_kb, BAR);
        writeln!(
            out,
            "{:<20}{:>12}{:>10.2}{:>12}{kilobytes:>14.2}  {graph}",
            transport.to_string(),
            thousands(paper.associations),
            paper.memory_kb,
            thousands(case.load.held),
        )?;
    }
    let tcp = results.case(Transport::Tcp, Style::Regular, None).and_then(|case| case.memory);
    if let Some(tcp) = tcp {
        writeln!(
            out,
            "A full bar is the paper's one-to-one. SCTP: growth of the server process. TCP: growth of the kernel's slab \
             caches\nand socket buffers, halved because both ends are here ({:.2} KB), and of the server processes \
             ({:.2} KB).\nPublished: slab caches. {} were requested (--associations), not the maximum.",
            tcp.kernel_bytes / 1000.0,
            tcp.process_bytes / 1000.0,
            thousands(results.associations),
        )?;
    }
    Ok(())
}

fn table5(published: &Published, results: &Results, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nTable 5: milliseconds for set-up, and for a {}-byte message and its echo, at {} new associations per second",
        thousands(results.message_bytes as u64),
        thousands(results.rate as u64),
    )?;
    writeln!(
        out,
        "{:<38}{:>8}{:>8}{:>8}  {:>8}{:>8}{:>8}{:>9}",
        "", "set-up", "trans.", "total", "set-up", "trans.", "total", "p99 tot."
    )?;
    writeln!(out, "{:<38}{:^24}  {:^33}", "", "published", "measured: medians, 99th percentile")?;
    let paper = &published.table5;
    let rows = [
        (Some(&paper.one_to_one), Transport::Sctp, Style::Regular, IN_UDP),
        (None, Transport::SctpMany, Style::Regular, IN_UDP),
        (None, Transport::Sctp, Style::Piggyback, IN_UDP),
        (Some(&paper.one_to_many), Transport::SctpMany, Style::Piggyback, IN_UDP),
        (None, Transport::Sctp, Style::Regular, ON_RAW_IP),
        (None, Transport::SctpMany, Style::Piggyback, ON_RAW_IP),
        (Some(&paper.tcp), Transport::Tcp, Style::Regular, None),
        (None, Transport::Udp, Style::Regular, None),
    ];
    for (paper, transport, style, encapsulation) in rows {
        if let Some(case) = results.case(transport, style, encapsulation) {
            row5(paper, case, published.table5.one_to_one.total_ms, out)?;
        }
    }
    writeln!(
        out,
        "A full bar is the paper's one-to-one total. SCTP runs over UDP unless raw IP is named. Operations start on \
         schedule,\nindependently of the server; other load on the machine shows first in the 99th percentile."
    )
}

fn row5(paper: Option<&Times>, case: &Case, full: f64, out: &mut impl Write) -> io::Result<()> {
    let load = &case.load;
    let style = if load.style == Style::Piggyback { ", piggyback" } else { "" };
    let carrier = load.encapsulation.filter(|carrier| Some(*carrier) == ON_RAW_IP);
    let carrier = carrier.map(|carrier| format!(" {carrier}")).unwrap_or_default();
    let graph = bar(total_ms(case).unwrap_or(0.0), full, BAR / 2);
    writeln!(
        out,
        "{:<38}{:>8}{:>8}{:>8}  {:>8}{:>8}{:>8}{:>9}  {graph}",
        format!("{}{carrier}{style}", load.transport),
        hundredths(paper.and_then(|times| times.setup_ms)),
        hundredths(paper.and_then(|times| times.transaction_ms)),
        hundredths(paper.map(|times| times.total_ms)),
        thousandths(load.setup.as_ref().map(|times| times.p50_ms)),
        thousandths(load.transaction.as_ref().map(|times| times.p50_ms)),
        thousandths(total_ms(case)),
        thousandths(load.total.as_ref().map(|times| times.p99_ms)),
    )?;
    if load.failed > 0 {
        writeln!(out, "    {} of {} failed: {:?}", load.failed, load.failed + load.completed, load.errors)?;
    }
    Ok(())
}

fn total_ms(case: &Case) -> Option<f64> {
    case.load.total.as_ref().map(|times| times.p50_ms)
}

fn table6(published: &Published, results: &Results, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nTable 6: milliseconds since the previous message, seen at the client (s: sent, r: received)"
    )?;
    writeln!(
        out,
        "{:<16}{:>10}{:>10}{:>12}{:>10}    {:<12}{:>10}{:>10}",
        "SCTP", "regular", "measured", "piggyback", "measured", "TCP", "published", "measured"
    )?;
    let left = ["s:INIT", "r:INIT-ACK", "s:COOKIE-ECHO", "r:COOKIE-ACK", "s:DATA", "r:DATA"];
    let right = ["s:SYN", "r:SYN, ACK", "s:ACK", "", "s:DATA", "r:DATA"];
    for (sctp, tcp) in left.into_iter().zip(right) {
        writeln!(
            out,
            "{sctp:<16}{:>10}{:>10}{:>12}{:>10}    {tcp:<12}{:>10}{:>10}",
            paper(&published.table6.regular, sctp),
            measured(&results.regular_steps, sctp),
            paper(&published.table6.piggyback, sctp),
            measured(&results.piggyback_steps, sctp),
            paper(&published.table6.tcp, tcp),
            measured(&results.tcp_steps, tcp),
        )?;
    }
    writeln!(
        out,
        "Medians. SCTP packets are timed where they leave and enter the client's stack. In piggyback style s:DATA is the \
         rest of a\nmessage that did not fit into the packet with the COOKIE ECHO. TCP is timed by its calls: connect() \
         returns with SYN, ACK,\nwrite() with DATA sent, read() with the echo; the ACK is not visible."
    )
}

fn paper(table: &BTreeMap<String, f64>, step: &str) -> String {
    hundredths(table.get(step).copied())
}

fn measured(steps: &Steps, step: &str) -> String {
    match step {
        "s:INIT" | "s:SYN" => "0.000".to_owned(),
        _ => thousandths(steps.median_ms(step)),
    }
}

fn hundredths(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

fn thousandths(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.3}"))
}

fn next(out: &mut impl Write) -> io::Result<()> {
    let program = std::env::args().next().unwrap_or_else(|| "strandline".to_owned());
    writeln!(
        out,
        "\nWhat to try next:
  {program} echo &                                 a server of your own on 127.0.0.1
  {program} load echo --style piggyback            one round trip less
  {program} load echo --persistent 50 --rate 20000 messages on associations that exist
  {program} load echo --count 10 --pcap echo.pcapng  the packets, for Wireshark
  {program} load echo --help                       everything that can be set
  make test                                        whether all this is true"
    )
}
