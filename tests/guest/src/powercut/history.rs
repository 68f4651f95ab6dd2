// SPDX-License-Identifier: GPL-2.0

//! What was done to a volume and what was promised, in the order in which it was; as text, too, so
//! that a state can be looked at again.

use super::model::Event;
use super::tree::{Change, Inode};
use crate::why::{Why, Within};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What of its files a task was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing.
    None,
    /// All of all of them.
    All,
    /// All of this one.
    File(u16),
    /// These words of one.
    Words { id: u16, at: usize, count: usize },
}

/// Something that must be there after a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The number of the mark.
    pub mark: usize,
    pub task: usize,
    /// At least so many of the task's operations are in the journal.
    pub least: usize,
    /// Of the first so many operations the data is on the disk.
    pub upto: usize,
    /// The task had done no more than that when the mark was made.
    pub own: bool,
    pub data: Data,
}

impl Promise {
    /// All that `task` has done with its first `done` operations is on the disk.
    pub fn of_all(task: usize, done: usize) -> Self {
        Self {
            mark: 0,
            task,
            least: done,
            upto: done,
            own: false,
            data: Data::All,
        }
    }
}

/// All that was done and promised.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct History {
    /// For each task what its operations changed.
    pub tasks: Vec<Vec<Vec<Change>>>,
    /// By their marks.
    pub promises: Vec<Promise>,
}

impl History {
    /// The events of every file of a task, with the numbers of their operations, from 1 on.
    pub fn events(&self, task: usize) -> BTreeMap<u16, Vec<(usize, Event)>> {
        let mut all: BTreeMap<u16, Vec<(usize, Event)>> = BTreeMap::new();
        for (nr, op) in self.tasks[task].iter().enumerate() {
            for change in op {
                let (id, event) = match *change {
                    Change::Write {
                        id,
                        at,
                        count,
                        write,
                    } => (id, Event::Write { at, count, write }),
                    Change::Size { id, words } => (id, Event::Size(words)),
                    _ => continue,
                };
                all.entry(id).or_default().push((nr + 1, event));
            }
        }
        all
    }

    /// As text.
    pub fn save(&self) -> String {
        let mut out = String::new();
        for ops in &self.tasks {
            out += "task\n";
            for op in ops {
                out += "op\n";
                for change in op {
                    save(&mut out, change);
                }
            }
        }
        for p in &self.promises {
            let (mark, task, least, upto) = (p.mark, p.task, p.least, p.upto);
            let own = u8::from(p.own);
            let data = match p.data {
                Data::None => "0 0 0".into(),
                Data::All => "1 0 0".into(),
                Data::File(id) => format!("2 {id} 0"),
                Data::Words { id, at, count } => format!("{} {id} {at}", 3 + count),
            };
            let _ = writeln!(out, "promise {mark} {task} {least} {upto} {own} {data}");
        }
        out
    }

    /// From text.
    pub fn load(text: &str) -> Result<Self, Why> {
        let mut all = Self::default();
        for line in text.lines() {
            all.take(line).within(|| format!("{line:?}"))?;
        }
        Ok(all)
    }

    fn take(&mut self, line: &str) -> Result<(), Why> {
        let words: Vec<&str> = line.splitn(9, ' ').collect();
        let number = |i: usize| -> Result<usize, Why> {
            let word = words.get(i).and_then(|word| word.parse().ok());
            word.ok_or_else(|| "a number is missing".into())
        };
        let text = |i: usize| words.get(i).copied().unwrap_or_default();
        let change = match words[0] {
            "task" => {
                self.tasks.push(Vec::new());
                return Ok(());
            }
            "op" => {
                let task = self.tasks.last_mut().ok_or("no task")?;
                task.push(Vec::new());
                return Ok(());
            }
            "promise" => {
                let (id, at) = (number(7)? as u16, number(8)?);
                self.promises.push(Promise {
                    mark: number(1)?,
                    task: number(2)?,
                    least: number(3)?,
                    upto: number(4)?,
                    own: number(5)? == 1,
                    data: match number(6)? {
                        0 => Data::None,
                        1 => Data::All,
                        2 => Data::File(id),
                        more => Data::Words {
                            id,
                            at,
                            count: more - 3,
                        },
                    },
                });
                return Ok(());
            }
            "name" => Change::Name {
                key: (number(1)? as u64, text(2).to_owned()),
                ino: number(3)? as u64,
            },
            "inode" => Change::Inode {
                ino: number(1)? as u64,
                inode: Inode {
                    id: number(2)? as u16,
                    what: line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned(),
                },
            },
            "write" => Change::Write {
                id: number(1)? as u16,
                at: number(2)?,
                count: number(3)?,
                write: number(4)? as u16,
            },
            "size" => Change::Size {
                id: number(1)? as u16,
                words: number(2)?,
            },
            _ => return Err("unknown".into()),
        };
        let op = self.tasks.last_mut().and_then(|task| task.last_mut());
        op.ok_or("no operation")?.push(change);
        Ok(())
    }
}

fn save(out: &mut String, change: &Change) {
    let _ = match change {
        Change::Name { key, ino } => writeln!(out, "name {} {} {ino}", key.0, key.1),
        Change::Inode { ino, inode } => writeln!(out, "inode {ino} {} {}", inode.id, inode.what),
        Change::Write {
            id,
            at,
            count,
            write,
        } => writeln!(out, "write {id} {at} {count} {write}"),
        Change::Size { id, words } => writeln!(out, "size {id} {words}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_holds_everything() {
        let name = |ino| Change::Name {
            key: (12, "0.a".into()),
            ino,
        };
        let inode = Change::Inode {
            ino: 13,
            inode: Inode {
                id: 7,
                what: "100600 0:0 user.a=5:77 user.b=6:78".into(),
            },
        };
        let write = Change::Write {
            id: 7,
            at: 1,
            count: 2,
            write: 3,
        };
        let promise = |data| Promise {
            mark: 4,
            task: 1,
            least: 2,
            upto: 3,
            own: true,
            data,
        };
        let words = Data::Words {
            id: 7,
            at: 4,
            count: 0,
        };
        let history = History {
            tasks: vec![
                vec![vec![inode, name(13)], vec![write]],
                vec![vec![Change::Size { id: 9, words: 8 }, name(0)]],
            ],
            promises: [Data::None, Data::All, Data::File(7), words]
                .map(promise)
                .to_vec(),
        };
        assert_eq!(History::load(&history.save()), Ok(history));
    }
}
