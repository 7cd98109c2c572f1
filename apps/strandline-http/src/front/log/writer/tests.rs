use std::sync::mpsc;

use super::*;
use crate::files::testing::Folder;

const LONG: Duration = Duration::from_secs(60);

/// A file that takes at most so many bytes.
struct Limited {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let len = bytes.len().min(self.left);
        self.left -= len;
        self.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe whose reader takes nothing until it is told to.
struct Stalled(mpsc::Receiver<()>);

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error says that the reader takes everything from now on.
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lost_lines_are_reported_now_and_then() {
    let begin = now();
    let mut reports = Reports::default();
    let told = (0..121).filter_map(|second| {
        reports.on_lost(1, begin + Duration::from_secs(second)).map(|lost| (second, lost))
    });
    assert_eq!(told.collect::<Vec<_>>(), [(0, 1), (60, 60), (120, 60)]);
    assert_eq!(reports.on_lost(0, begin + LONG * 10), None, "nothing is lost");
}

#[test]
fn a_stalled_file_delays_nobody() {
    let (ready, stalled) = mpsc::channel();
    let writer = Writer::spawn(Box::new(Stalled(stalled)), None).unwrap();
    let line = "x".repeat(1023);
    let lines = 3 * WAITING_BYTES_MAX / 1024;
    for _ in 0..lines {
        writer.push(&line);
    }
    // The queue is full, and what was taken out of it is still being written.
    let lost = writer.counts().lost;
    let kept = lines as u64 - lost;
    let room = (WAITING_BYTES_MAX / 1024) as u64;
    assert!(lost > 0 && kept <= 2 * room, "{lost} lost, {kept} kept");
    assert!(!writer.flush(Duration::ZERO));
    drop(ready);
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts(), Counts { written: kept, lost });
    writer.push(&line);
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts(), Counts { written: kept + 1, lost });
}

#[test]
fn lines_on_a_full_disk_are_counted() {
    let writer = Writer::open(Path::new("/dev/full")).unwrap();
    for _ in 0..3 {
        writer.push("line");
        assert!(writer.flush(LONG));
    }
    assert_eq!(writer.counts(), Counts { written: 0, lost: 3 });
}

#[test]
fn lines_after_one_cut_off_are_whole() {
    let file = Box::new(Limited { bytes: Vec::new(), left: 6 });
    let mut target = Target { file, path: None, is_within_line: false };
    assert!(matches!(target.write(b"one\ntwo\n"), (6, Some(_))));
    let file = Box::new(Limited { bytes: Vec::new(), left: 100 });
    target.file = file;
    assert!(matches!(target.write(b"three\n"), (6, None)));
    assert!(!target.is_within_line);
    // The end of the line that was cut off is the first byte.
    let folder = Folder::new("log-cut");
    let path = folder.path().join("log");
    let mut target = Target { file: Box::new(append(&path).unwrap()), path: None, is_within_line: true };
    target.write(b"three\n");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "\nthree\n");
}

#[test]
fn renamed_files_are_opened_again() {
    let folder = Folder::new("log-renamed");
    let (path, before) = (folder.path().join("log"), folder.path().join("log.1"));
    let writer = Writer::open(&path).unwrap();
    writer.push("one");
    assert!(writer.flush(LONG));
    std::fs::rename(&path, &before).unwrap();
    writer.push("two");
    writer.reopen();
    assert!(writer.flush(LONG));
    writer.push("three");
    assert!(writer.flush(LONG));
    assert_eq!(std::fs::read_to_string(&before).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
    // A directory that is gone leaves the file as it is.
    drop(folder);
    writer.reopen();
    writer.push("four");
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts(), Counts { written: 4, lost: 0 });
}

#[test]
fn a_pipe_without_reader_is_refused() {
    let folder = Folder::new("log-pipe");
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let (done, opened) = mpsc::channel();
    let pipe = path.clone();
    std::thread::spawn(move || done.send(Writer::open(&pipe).map(drop)));
    let error = opened.recv_timeout(LONG).expect("nothing waits for a reader").unwrap_err();
    assert!(error.to_string().contains("no program reads this pipe"), "{error}");
    // With a reader the thread waits where the pipe is full.
    let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let file = append(&path).unwrap();
    assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    drop(reader);
}
