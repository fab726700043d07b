use maestro_protocol::Cursor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// A part of the state that may be large and seldom changes. Serialised it is the cursor of the checkpoint that holds
/// it, so that a checkpoint costs what changed since the one before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept<T> {
    value: Option<Arc<T>>,
    /// The checkpoint that holds the value; 0 if none does yet, or if there is no value.
    at: Cursor,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { value: None, at: 0 }
    }
}

impl<T: PartialEq> Kept<T> {
    pub(super) fn get(&self) -> Option<&T> {
        self.value.as_deref()
    }

    /// Takes a new value; whether that made a difference.
    pub(super) fn set(&mut self, new: Option<T>) -> bool {
        let changed = self.get() != new.as_ref();
        if changed {
            *self = Self { value: new.map(Arc::new), at: 0 };
        }
        changed
    }

    /// The value, if the checkpoint at `cursor` is the first to hold it.
    pub(super) fn store(&mut self, cursor: Cursor) -> Option<Arc<T>> {
        let value = self.value.clone().filter(|_| self.at == 0);
        if value.is_some() {
            self.at = cursor;
        }
        value
    }

    /// The checkpoint that holds the value; `None` if there is no value.
    pub(super) fn stored_at(&self) -> Option<Cursor> {
        Some(self.at).filter(|at| *at != 0)
    }

    /// Puts the value back after the fold was read from a checkpoint; whether there is the one that was named.
    pub(super) fn restore(&mut self, value: Option<Arc<T>>) -> bool {
        self.value = value;
        self.value.is_some()
    }
}

impl<T> Serialize for Kept<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.at.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { value: None, at: Cursor::deserialize(deserializer)? })
    }
}
