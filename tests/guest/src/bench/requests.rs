// SPDX-License-Identifier: GPL-2.0

//! What a trace tells of the requests that a run sent.

use crate::sys::extent::Extent;
use crate::trace::Request;

/// Requests of this many bytes are large.
const LARGE: u64 = 512 << 10;

/// Figures by name. Data is what lies in `extents`.
pub fn figures(requests: &[Request], extents: &[Extent]) -> Vec<(&'static str, u64)> {
    let inside = |request: &&Request| {
        let holds = |e: &Extent| (e.physical..e.physical + e.length).contains(&request.start);
        extents.iter().any(holds)
    };
    let writes: Vec<&Request> = requests.iter().filter(|r| r.is_write()).collect();
    let data: Vec<&Request> = writes.iter().copied().filter(inside).collect();
    let bytes = |list: &[&Request]| list.iter().map(|r| r.length).sum::<u64>();
    let large: Vec<&Request> = (data.iter().copied())
        .filter(|r| r.length >= LARGE)
        .collect();
    let journal = |r: &&&Request| r.task.starts_with("jbd2");
    vec![
        ("seek_bytes", seek(&writes)),
        (
            "sync_ios",
            writes.iter().filter(|r| r.is_sync()).count() as u64,
        ),
        ("data_ios", data.len() as u64),
        ("data_bytes", bytes(&data)),
        (
            "data_sync_ios",
            data.iter().filter(|r| r.is_sync()).count() as u64,
        ),
        ("data_large_bytes", bytes(&large)),
        (
            "data_journal_ios",
            data.iter().filter(journal).count() as u64,
        ),
    ]
}

/// The sum of the gaps between each request's end and the next one's start.
fn seek(requests: &[&Request]) -> u64 {
    let gap = |pair: &[&Request]| (pair[0].start + pair[0].length).abs_diff(pair[1].start);
    requests.windows(2).map(gap).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_requests_tell() {
        let request = |flags: &str, start, length| Request {
            flags: flags.into(),
            start,
            length,
            task: "dd".into(),
        };
        let requests = [
            request("W", 0, 1 << 20),
            request("R", 9 << 20, 4096),
            request("WS", 1 << 20, 4096),
            request("W", 3 << 20, 4096),
        ];
        let extent = Extent {
            logical: 0,
            physical: 0,
            length: 2 << 20,
            flags: 0,
        };
        let got = figures(&requests, &[extent]);
        let of = |name| got.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(of("seek_bytes"), (2 << 20) - 4096);
        assert_eq!(
            (of("sync_ios"), of("data_ios"), of("data_sync_ios")),
            (1, 2, 1)
        );
        assert_eq!(
            (of("data_bytes"), of("data_large_bytes")),
            ((1 << 20) + 4096, 1 << 20)
        );
    }
}
