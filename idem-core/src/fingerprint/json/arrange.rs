//! Members in the order of their names.

use core::ops::Range;

use super::super::encode::put_stretch;

/// The objects whose members must move, found while the document is transcribed in the order of its source.
///
/// Nothing moves until the whole document is read: then every byte is copied once, however deep it is nested.
pub(super) struct Arrangement {
    objects: Vec<Shuffled>,
    segments: Vec<Segment>,
}

/// A member as it stands in the transcript.
pub(super) struct Segment {
    pub(super) span: Range<usize>,
    /// Which of the shuffled objects inside the member's object are inside the member.
    pub(super) objects: Range<usize>,
}

/// One object: where its members stand, and which segments take their place.
struct Shuffled {
    /// From the opening brace to before the closing one.
    span: Range<usize>,
    segments: Range<usize>,
    /// How many shuffled objects are inside this one.
    inside: usize,
}

/// A place to go back to when what was read since does not count.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    objects: usize,
    segments: usize,
}

impl Arrangement {
    /// Room for a payment with its items, in allocations that the allocator keeps at hand.
    pub(super) fn new() -> Self {
        Self { objects: Vec::with_capacity(16), segments: Vec::with_capacity(32) }
    }

    pub(super) fn clear(&mut self) {
        self.rewind(Mark { objects: 0, segments: 0 });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { objects: self.objects.len(), segments: self.segments.len() }
    }

    pub(super) fn rewind(&mut self, mark: Mark) {
        self.objects.truncate(mark.objects);
        self.segments.truncate(mark.segments);
    }

    /// The number of objects that must be put in order, so far.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Says that these segments, in this order, are the members of the object whose opening brace starts `span`, and
    /// that `inside` objects inside it have been shuffled before.
    pub(super) fn shuffle(&mut self, span: Range<usize>, inside: usize, members: impl Iterator<Item = Segment>) {
        let first = self.segments.len();
        self.segments.extend(members);
        self.objects.push(Shuffled { span, segments: first..self.segments.len(), inside });
    }

    /// Puts all members in their places.
    pub(super) fn apply(mut self, transcript: Vec<u8>) -> Vec<u8> {
        if self.objects.is_empty() {
            return transcript;
        }
        // From the order in which objects end to the order in which they start: each is followed by those inside it.
        // The stable sort finds the runs that are there.
        self.objects.sort_by_key(|object| object.span.start);
        let mut out = Vec::with_capacity(transcript.len());
        self.copy(&transcript, 0..transcript.len(), 0..self.objects.len(), &mut out);
        out
    }

    /// Copies a stretch of the transcript that holds these objects. Recursion goes as deep as objects are nested, which
    /// the reader has bounded.
    fn copy(&self, transcript: &[u8], stretch: Range<usize>, objects: Range<usize>, out: &mut Vec<u8>) {
        let mut at = stretch.start;
        let mut next = objects.start;
        while next < objects.end {
            let object = &self.objects[next];
            next += 1;
            put_stretch(out, transcript, at..object.span.start + 1);
            for Segment { span, objects } in &self.segments[object.segments.clone()] {
                if objects.is_empty() {
                    put_stretch(out, transcript, span.clone());
                } else {
                    self.copy(transcript, span.clone(), next + objects.start..next + objects.end, out);
                }
            }
            at = object.span.end;
            next += object.inside;
        }
        put_stretch(out, transcript, at..stretch.end);
    }
}
