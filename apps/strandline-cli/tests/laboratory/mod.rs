//! A folder with experiments for tests of `strandline lab`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A plan whose programs only print the contents of a file.
pub const PLAN: &str = r#"
figure = "Figure 1"
title = "Two files"
source = "section 1"
shows = "One is larger."
differs = "Nothing."
[network]
kind = "none"
[runs]
seconds = 0.1
repetitions = 2
takes = 0.1
timeout = 20
[sweep]
variable = "size"
values = [1, 10]
label = "Size"
unit = "KB"
[[measure]]
name = "speed"
label = "Speed"
unit = "Mbit/s"
value = "{/speed} * {size}"
better = "more"
[[series]]
name = "a"
title = "The first, with a name that takes its room"
transport = "sctp"
client = "cat FOLDER/a.json"
[[series]]
name = "b"
title = "The second"
transport = "tcp"
client = "cat FOLDER/b.json"
[draw]
kind = "lines"
baseline = "b"
[[claim]]
says = "The first is faster."
value = "100 * ({a.speed@10} + {a.speed@10}) / ({b.speed@10} + {b.speed@10}) / 100"
min = 1
"#;

/// A folder with experiments, which is removed when this value is dropped.
pub struct Laboratory {
    pub folder: PathBuf,
}

impl Laboratory {
    pub fn new(name: &str, plan: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lab-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let paper = folder.join("experiments/someone-2000");
        fs::create_dir_all(&paper).unwrap();
        let about = "title = \"T\"\nauthors = \"A\"\nyear = 2000\nvenue = \"V\"\nsetup = \"S\"\n";
        fs::write(paper.join("paper.toml"), about).unwrap();
        fs::write(folder.join("a.json"), "{\"speed\": 3}").unwrap();
        fs::write(folder.join("b.json"), "hello\n{\"speed\": 2}\n").unwrap();
        let laboratory = Self { folder };
        laboratory.plan("figure1", plan);
        laboratory
    }

    /// Writes a plan; FOLDER stands for this folder.
    pub fn plan(&self, name: &str, plan: &str) {
        let file = self.folder.join(format!("experiments/someone-2000/{name}.toml"));
        fs::write(file, plan.replace("FOLDER", self.folder.to_str().unwrap())).unwrap();
    }

    pub fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("lab").args(arguments).current_dir(&self.folder);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.lab(arguments).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    pub fn results(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.join("lab-results/someone-2000/figure1.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
