use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn jobs(line: &str) -> Result<Vec<Job>> {
    Line::parse_from(std::iter::once("test").chain(line.split_whitespace())).args.jobs()
}

#[test]
fn the_work_is_shared_out_evenly() {
    let jobs = jobs("--clients 3 --count 10 --rate 300 --persistent 5").unwrap();
    assert_eq!(jobs.iter().map(|job| job.count).collect::<Vec<_>>(), [4, 3, 3]);
    assert_eq!(jobs.iter().map(|job| job.persistent).collect::<Vec<_>>(), [2, 2, 1]);
    assert!(jobs.iter().all(|job| (job.rate - 100.0).abs() < 1e-9));
    assert!((jobs[2].offset_s - 2.0 / 300.0).abs() < 1e-12);
    assert_eq!(jobs[0].server.port(), 7007);
}

#[test]
fn nonsense_is_refused() {
    for line in ["--rate 0", "--duration 0", "--duration nan", "--clients 0", "--transport tcp --pcap x"] {
        jobs(line).unwrap_err();
    }
}
