//! Tests of figures: numbers at the right positions, and legible pictures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "png")]
use resvg::tiny_skia::Pixmap;
use resvg::usvg::{Options, Tree};

use super::axis::Stretch;
use super::*;

fn mark(x: f64, y: f64) -> Mark {
    Mark { x, at: show(x), y, range: Some((y * 0.9, y * 1.1)), count: 3 }
}

fn line(title: &str, transport: Transport, marks: Vec<Mark>) -> Line {
    Line {
        title: title.to_owned(),
        transport,
        shade: 0,
        published: false,
        marks,
        invalid: Vec::new(),
        failed: Vec::new(),
    }
}

pub(crate) fn chart(bars: bool) -> Chart {
    let ours = line("Ours & <theirs>", Transport::Sctp, vec![mark(1.0, 90.0), mark(10.0, 40.0)]);
    let mut paper = line("TCP", Transport::Tcp, vec![mark(1.0, 80.0)]);
    paper.published = true;
    let mut tcp = line("TCP", Transport::Tcp, vec![mark(1.0, 85.0), mark(10.0, 20.0)]);
    tcp.invalid.push(mark(10.0, 99.0));
    Chart {
        title: "Throughput".to_owned(),
        x: Axis { label: "Packets lost (%)".to_owned(), scale: Scale::Log },
        y: Axis { label: "Throughput (Mbit/s)".to_owned(), scale: Scale::Linear },
        unit: "Mbit/s".to_owned(),
        lines: vec![ours, tcp, paper],
        ticks: vec![(1.0, "1".to_owned()), (10.0, "10".to_owned())],
        bars,
    }
}

#[test]
fn numbers_are_short() {
    let shown = [0.0, 0.123_45, 1.5, 12.34, 123.4, 999.9, 1234.5, 12_345.0, 1_234_567.0, -2.5, 0.000_12];
    let expected =
        ["0", "0.123", "1.5", "12.3", "123", "1000", "1235", "12,345", "1,234,567", "-2.5", "0.00012"];
    assert_eq!(shown.map(show), expected.map(str::to_owned));
}

#[test]
fn axes_begin_at_zero_and_end_above_everything() {
    let axis = Stretch::above(&[3.0, 93.0], Scale::Linear, 200.0, 0.0);
    assert_eq!(axis.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    assert_eq!((axis.place(0.0), axis.place(100.0), axis.place(50.0)), (200.0, 0.0, 100.0));
    let axis = Stretch::above(&[3.0, 930.0], Scale::Log, 0.0, 300.0);
    assert_eq!(axis.ticks().iter().map(|tick| tick.round()).collect::<Vec<_>>(), [1.0, 10.0, 100.0, 1000.0]);
    assert!((axis.place(10.0) - 100.0).abs() < 1e-9);
    // No measurements, or only zeros.
    for numbers in [vec![], vec![0.0]] {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Stretch::above(&numbers, scale, 0.0, 10.0);
            assert!(axis.ticks().len() >= 2 && axis.place(0.0).is_finite());
            assert!(Stretch::around(&numbers, scale, 0.0, 10.0).place(1.0).is_finite());
        }
    }
}

#[test]
fn drawings_are_sound_at_every_width() {
    for bars in [false, true] {
        for (width, theme) in [(820.0, Theme::Page), (360.0, Theme::Page), (720.0, Theme::Picture)] {
            let svg = chart(bars).svg(width, theme);
            let tree = Tree::from_str(&svg, &Options::default()).unwrap();
            assert_eq!(f64::from(tree.size().width()), width);
            assert!(svg.contains("Ours &amp; &lt;theirs&gt;"), "{svg}");
            assert!(svg.contains("median of 3, 81 to 99"), "{svg}");
            assert!(svg.contains("invalid: TCP at 10: 99 Mbit/s"), "{svg}");
            // Nothing extends beyond the left or right edge.
            let xs = svg
                .split(" x=\"")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
            assert!(xs.into_iter().all(|x| (0.0..=width).contains(&x)), "{svg}");
            assert_eq!(theme == Theme::Page, svg.contains("var(--sctp-0)"));
        }
    }
}

#[test]
fn bar_labels_do_not_overlap() {
    let mut narrow = chart(true);
    for mark in narrow.lines.iter_mut().flat_map(|line| &mut line.marks) {
        (mark.y, mark.range) = (mark.y * 1e6, None);
    }
    let svg = narrow.svg(360.0, Theme::Page);
    let axis = svg.split("<text ").filter(|text| text.contains("middle") && text.contains("000,000<"));
    let places: Vec<f64> = axis.map(|text| text.split('"').nth(1).unwrap().parse().unwrap()).collect();
    assert!(places.len() >= 2 && places.windows(2).all(|two| two[1] - two[0] > 70.0), "{svg}");
}

#[test]
fn long_names_are_broken_into_lines() {
    let long =
        "Another transport whose name goes on and on, with what was switched off and what was on (published)";
    assert!(svg::wrap(long, 200.0).len() >= 3 && svg::wrap(long, 200.0).join(" ") == long);
    for bars in [false, true] {
        let mut chart = chart(bars);
        chart.lines[0].title = long.to_owned();
        for width in [360.0, 820.0] {
            let drawn = chart.svg(width, Theme::Page);
            let texts = drawn.split("<text x=\"").skip(1).filter(|text| text.contains("anchor=\"start\""));
            for text in texts {
                let x: f64 = text.split('"').next().unwrap().parse().unwrap();
                let shown = text.split('>').nth(1).unwrap().split('<').next().unwrap();
                assert!(x + svg::text_width(shown, svg::TEXT) <= width, "{shown}");
            }
        }
    }
}

#[test]
fn what_does_not_count_is_in_no_line() {
    let mut with = chart(false);
    let paths = |chart: &Chart| {
        let svg = chart.svg(820.0, Theme::Page);
        svg.split("<path d=\"").skip(1).filter(|path| path.contains("stroke-linejoin")).count()
    };
    let before = paths(&with);
    with.lines[1].invalid.push(mark(3.0, 50.0));
    assert_eq!(paths(&with), before);
    assert!(with.svg(820.0, Theme::Page).contains("invalid run"));
}

/// Returns the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        let linear =
            |part: f64| if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn everything_stands_out_from_its_ground() {
    assert_eq!(contrast("#ffffff", "#000000").round(), 21.0);
    for theme in paint::variables() {
        let colours: Vec<(&str, &str)> =
            theme.trim_end_matches(';').split(';').map(|pair| pair.split_once(':').unwrap()).collect();
        let ground = colours.iter().find(|(name, _)| *name == "--ground").unwrap().1;
        for (name, colour) in &colours {
            let least = match *name {
                "--ground" | "--grid" => continue,
                "--ink" | "--faint" => 4.5,
                _ => 3.0,
            };
            let found = contrast(colour, ground);
            assert!(found >= least, "{name} {colour} on {ground}: {found:.2}");
        }
    }
}

#[test]
fn series_without_valid_runs_is_marked() {
    for bars in [false, true] {
        let mut with = chart(bars);
        let mut broken = line("Broken", Transport::Udp, Vec::new());
        broken.invalid = vec![mark(1.0, 70.0)];
        let mut failed = line("Failed", Transport::Udp, Vec::new());
        failed.failed = vec![(10.0, "10".to_owned())];
        with.lines.extend([broken, failed]);
        let svg = with.svg(820.0, Theme::Page);
        assert!(svg.contains("Broken") && svg.contains("invalid: Broken at 1: 70 Mbit/s"), "{svg}");
        assert!(svg.contains("Failed") && svg.matches("no valid run").count() >= 2, "{svg}");
    }
    // Also where there is nothing else.
    let mut alone = chart(true);
    alone.lines.iter_mut().for_each(|line| line.marks.clear());
    assert!(!alone.is_empty() && alone.svg(360.0, Theme::Page).contains("no valid run"));
}

#[cfg(feature = "png")]
#[test]
fn pictures_have_text_and_colours() {
    let bytes = png(&chart(false).svg(720.0, Theme::Picture)).unwrap();
    let picture = Pixmap::decode_png(&bytes).unwrap();
    assert_eq!(picture.width(), 1440);
    let count = |wanted: [u8; 3]| {
        let pixels = picture.pixels().iter();
        pixels.filter(|pixel| [pixel.red(), pixel.green(), pixel.blue()] == wanted).count()
    };
    // The line of SCTP, and the text of its name in the legend: without a font there would be none.
    assert!(count([0x00, 0x67, 0xb1]) > 500 && count([0x1c, 0x27, 0x33]) > 500);
    assert!(png("<svg").is_err());
}
