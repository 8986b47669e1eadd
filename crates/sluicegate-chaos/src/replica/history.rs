//! A replica's requests and answers, as bytes on their way to the parent process.

use crate::load::{AnswerKind, AnsweredRequest, LoadRun};

/// The requests and answers of one or more replicas.
#[derive(Clone, Debug, Default)]
pub struct ReplicaHistory {
    /// Every question that was written down.
    pub run: LoadRun,
    /// Rejections that were only counted.
    pub rejections_left_out: u64,
}

/// Sent, received, key, answer.
const RECORD: usize = 8 + 8 + 4 + 1;

const ANSWERS: [AnswerKind; 6] = [
    AnswerKind::Allowed,
    AnswerKind::Rejected,
    AnswerKind::AllowedLocally,
    AnswerKind::RejectedLocally,
    AnswerKind::Unchecked,
    AnswerKind::Unavailable,
];

impl ReplicaHistory {
    /// Puts what another saw beside this.
    pub fn include(&mut self, other: Self) {
        self.run.include(other.run);
        self.rejections_left_out += other.rejections_left_out;
    }

    /// Everything that was decided.
    pub fn decisions(&self) -> u64 {
        self.run.asked.len() as u64 + self.rejections_left_out
    }

    /// How many requests passed and were counted.
    pub fn admitted(&self) -> usize {
        self.run
            .asked
            .iter()
            .filter(|asked| asked.answer.is_admission())
            .count()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.rejections_left_out.to_le_bytes().to_vec();
        for AnsweredRequest {
            sent,
            received,
            key,
            answer,
        } in &self.run.asked
        {
            bytes.extend(sent.to_le_bytes());
            bytes.extend(received.to_le_bytes());
            bytes.extend((*key as u32).to_le_bytes());
            bytes.extend(
                ANSWERS
                    .iter()
                    .position(|known| known == answer)
                    .map(|place| place as u8),
            );
        }
        bytes
    }

    /// Reads the bytes of [`Self::to_bytes`]; `None` when they were cut off.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rejections, records) = bytes.split_first_chunk()?;
        let (records, []) = records.as_chunks::<RECORD>() else {
            return None;
        };
        let asked: Option<Vec<AnsweredRequest>> = records.iter().map(read_record).collect();
        Some(Self {
            run: LoadRun { asked: asked? },
            rejections_left_out: u64::from_le_bytes(*rejections),
        })
    }
}

fn read_record(record: &[u8; RECORD]) -> Option<AnsweredRequest> {
    let (sent, rest) = record.split_first_chunk()?;
    let (received, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_first_chunk()?;
    let answer = *ANSWERS.get(usize::from(*rest.first()?))?;
    Some(AnsweredRequest {
        sent: u64::from_le_bytes(*sent),
        received: u64::from_le_bytes(*received),
        key: u32::from_le_bytes(*key) as usize,
        answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_arrives_as_it_was_sent_or_not_at_all() {
        let asked = ANSWERS.map(|answer| AnsweredRequest {
            sent: 1 << 60,
            received: u64::MAX,
            key: 7,
            answer,
        });
        let history = ReplicaHistory {
            run: LoadRun {
                asked: asked.to_vec(),
            },
            rejections_left_out: 3,
        };
        let bytes = history.to_bytes();
        let read = ReplicaHistory::from_bytes(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{history:?}"));
        assert!(ReplicaHistory::from_bytes(&bytes[..bytes.len() - 1]).is_none());
    }
}
