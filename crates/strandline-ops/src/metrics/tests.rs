use super::*;

#[test]
fn histogram_has_the_format_of_prometheus() {
    let mut times = Histogram::default();
    for millis in [1, 1, 3, 700, 9000] {
        times.record(Duration::from_millis(millis));
    }
    let mut page = Page::new("x");
    page.histogram("wait_seconds", "How long they waited.", &times);
    let text = page.into_text();
    let begin = "# HELP x_wait_seconds How long they waited.\n# TYPE x_wait_seconds histogram\n\
                 x_wait_seconds_bucket{le=\"0.0005\"} 0\nx_wait_seconds_bucket{le=\"0.001\"} 2\n\
                 x_wait_seconds_bucket{le=\"0.002\"} 2\nx_wait_seconds_bucket{le=\"0.005\"} 3\n";
    assert!(text.starts_with(begin), "{text}");
    let end = "x_wait_seconds_bucket{le=\"1\"} 4\nx_wait_seconds_bucket{le=\"2\"} 4\n\
               x_wait_seconds_bucket{le=\"5\"} 4\nx_wait_seconds_bucket{le=\"+Inf\"} 5\n\
               x_wait_seconds_sum 9.705\nx_wait_seconds_count 5\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn values_of_labels_are_escaped() {
    let mut page = Page::new("x");
    page.gauges("node_alive", "1 while it is there.", "node", [("a\"b\\c\nd", 0.0)]);
    assert!(page.into_text().ends_with("x_node_alive{node=\"a\\\"b\\\\c\\nd\"} 0\n"));
}

#[test]
fn numbers_have_fractions_only_if_needed() {
    let mut page = Page::new("x");
    page.gauge("share", "A share.", 0.25);
    page.gauge("below", "A gauge below 0.", -3.0);
    page.seconds_counter("work_seconds_total", "Time.", Duration::from_millis(1500));
    page.seconds_counter("idle_seconds_total", "Time.", Duration::from_secs(2));
    let text = page.into_text();
    for line in ["x_share 0.25", "x_below -3", "x_work_seconds_total 1.5", "x_idle_seconds_total 2"] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

#[test]
fn process_is_described() {
    let mut page = Page::new("x");
    page.process("1.2.3", 1_700_000_000);
    let text = page.into_text();
    assert!(text.contains("\nx_build_info{version=\"1.2.3\"} 1\n"), "{text}");
    assert!(text.contains("\nx_process_start_time_seconds 1700000000\n"), "{text}");
    assert!(text.contains("\n# TYPE x_process_cpu_seconds_total counter\n"), "{text}");
}

#[test]
fn merged_pages_have_each_family_once() {
    const FIRST: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n# HELP b Others.\n# TYPE b gauge\n\
                         b{x=\"y\"} 1\nb{x=\"z\"} 2\n";
    const SECOND: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total 4\n";
    let pages = [("1".to_owned(), FIRST), ("other".to_owned(), SECOND)];
    let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{process=\"1\"} 3\na_total{process=\"other\"} 4\n\
                    # HELP b Others.\n# TYPE b gauge\nb{x=\"y\",process=\"1\"} 1\nb{x=\"z\",process=\"1\"} 2\n";
    assert_eq!(merge("process", &pages), expected);
}
