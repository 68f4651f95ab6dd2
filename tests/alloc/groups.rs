// SPDX-License-Identifier: GPL-2.0

//! System zones.

use super::zones::{overlapping, settle, Zone};
use super::Rng;

const BLOCKS: u64 = 300;

#[test]
fn zones_hold_the_blocks_that_were_put_in() {
    let mut rng = Rng::new(3);
    let (mut apart, mut overlaps) = (0, 0);
    for _ in 0..5000 {
        // What owns each block: nobody, the volume, the journal.
        let mut owner = vec![None; BLOCKS as usize + 20];
        let mut twice = false;
        let mut zones: Vec<Zone> = (0..rng.below(8))
            .map(|_| {
                let start = u64::from(rng.below(BLOCKS as u32));
                let end = start + 1 + u64::from(rng.below(20));
                let journal = rng.below(3) == 0;
                for b in start..end {
                    twice |= owner[b as usize].replace(journal).is_some();
                }
                Zone {
                    start,
                    end,
                    journal,
                }
            })
            .collect();
        let Some(count) = settle(&mut zones) else {
            assert!(twice);
            overlaps += 1;
            continue;
        };
        assert!(!twice);
        apart += 1;
        zones.truncate(count);
        // Sorted, and nothing left to join.
        for pair in zones.windows(2) {
            assert!(pair[0].end <= pair[1].start);
            assert!(pair[0].end < pair[1].start || pair[0].journal != pair[1].journal);
        }
        for _ in 0..20 {
            let start = u64::from(rng.below(BLOCKS as u32 + 20));
            let end = (start + u64::from(rng.below(30))).min(owner.len() as u64);
            let mut found = vec![None; owner.len()];
            for zone in overlapping(&zones, start, end) {
                assert!(zone.start < end && zone.end > start);
                for b in zone.start.max(start)..zone.end.min(end) {
                    found[b as usize] = Some(zone.journal);
                }
            }
            for b in start..end {
                assert_eq!(found[b as usize], owner[b as usize], "block {b}");
            }
        }
    }
    assert!(apart > 500 && overlaps > 500);
}
