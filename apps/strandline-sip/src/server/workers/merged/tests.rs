use super::metrics;

const FIRST: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n# HELP b Others.\n# TYPE b gauge\nb{x=\"y\"} 1\nb{x=\"z\"} 2\n";
const SECOND: &str =
    "# HELP a_total Things.\n# TYPE a_total counter\na_total 4\n# HELP c Only here.\n# TYPE c gauge\nc 0.5\n";

#[test]
fn each_family_is_said_once_and_each_sample_says_whose_it_is() {
    let page = metrics(&[(0, FIRST), (2, SECOND)], 5);
    let expected = "# HELP strandline_sip_workers Processes that serve.\n# TYPE strandline_sip_workers gauge\n\
         strandline_sip_workers 2\n\
         # HELP strandline_sip_worker_restarts_total Processes that died and were started again.\n\
         # TYPE strandline_sip_worker_restarts_total counter\nstrandline_sip_worker_restarts_total 5\n\
         # HELP a_total Things.\n# TYPE a_total counter\na_total{worker=\"1\"} 3\na_total{worker=\"3\"} 4\n\
         # HELP b Others.\n# TYPE b gauge\nb{x=\"y\",worker=\"1\"} 1\nb{x=\"z\",worker=\"1\"} 2\n\
         # HELP c Only here.\n# TYPE c gauge\nc{worker=\"3\"} 0.5\n";
    assert_eq!(page, expected);
}
