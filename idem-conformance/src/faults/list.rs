//! What a backend can get wrong.

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One way to break the contract. Each of them is a mistake that a real backend could make, and most have been
        /// made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

faults! {
    // Inserting.
    /// An insert says Done and writes nothing.
    SaysDoneWithoutWriting,
    /// An insert writes over whatever is there.
    OverwritesOnInsert,
    /// An insert writes over a settled record.
    OverwritesSettledOnInsert,
    /// An insert takes a released record for none, and starts the epoch anew.
    OverwritesReleasedOnInsert,
    /// An insert takes a claim whose lease is over for none.
    OverwritesAbandonedOnInsert,
    /// An insert looks, waits, and writes.
    ReadsThenInserts,
    /// An insert looks, waits, and writes, where the record that is there has expired.
    ReadsThenInsertsOverExpired,
    /// An insert answers with the record that is going to be written, before it is.
    TellsBeforeWriting,
    /// An expired record is Occupied.
    ExpiredIsOccupied,
    /// An insert that conflicts with an expired record finds nothing, and fails.
    StumblesOverExpired,
    /// An insert that finds its own token writes again.
    RepeatedInsertOverwrites,
    /// An insert that finds its own token shows another.
    HidesOwnToken,
    /// Losing a race is an error.
    LosersGetErrors,
    /// Whatever is inserted is a claim.
    InsertsClaimsOnly,
    /// Times below a millisecond are errors.
    RefusesShortTimes,
    /// Times are 32-bit numbers of milliseconds.
    WrapsLongTimes,
    /// An insert writes half of the record, waits, and writes the other half.
    InsertsInHalves,
    /// Where sixteen calls are under way at once, inserts beyond the fourth are said to be Done and are lost.
    LosesTheTailOfAGroup,
    /// Of two inserts at once, each gets the other's answer.
    MixesUpAnswers,
    /// With more than 40 calls at once, calls wait for each other for ever.
    TiesUpUnderLoad,
    /// A call that is dropped keeps its key locked.
    DroppedCallKeepsItsLock,

    // Replacing.
    /// Any token owns the claim.
    IgnoresToken,
    /// A renewal checks the token but not the state: it makes a settled record a claim again.
    RenewalReopens,
    /// A settlement checks the token but not the state.
    SettlesTwice,
    /// Any revision is the one that was seen.
    IgnoresRevision,
    /// A renewal under a fitting revision extends a settled record.
    RenewsSettled,
    /// A replacement of a vacant key inserts.
    CreatesOnReplace,
    /// A guard also fits a record that has expired.
    RevivesExpired,
    /// The owner may not write after its lease.
    RefusesLateOwner,
    /// A failed record cannot be replaced.
    FailedIsFinal,
    /// A released record can be claimed but not settled.
    ReleasedIsNeverSettled,
    /// A release deletes the record.
    ReleaseDeletes,
    /// A replacement leaves the former token.
    KeepsToken,
    /// A replacement leaves the former fingerprint.
    KeepsFingerprint,
    /// A replacement leaves the former epoch.
    KeepsEpoch,
    /// A replacement says Done and writes nothing.
    SaysReplacedWithoutWriting,
    /// A wrapper that was given a default body says Lost to every replacement.
    ReplaceIsADefault,
    /// A takeover looks, waits, and writes.
    ReadsThenTakesOver,
    /// A settlement looks, waits, and writes.
    ReadsThenSettles,
    /// A renewal reads the record, waits, and writes all of it back.
    ReadsThenRenews,
    /// Tokens are compared as text, without regard to case.
    TokensFoldCase,
    /// The first eight bytes of tokens are compared.
    TokensByPrefix,
    /// Tokens are compared up to a NUL.
    TokensStopAtNul,
    /// Tokens are compared as text, with one replacement for all that is none.
    TokensLossy,
    /// A renewal leaves the revision.
    RenewalKeepsRevision,
    /// A settlement leaves the revision.
    SettlementKeepsRevision,
    /// A takeover leaves the revision.
    TakeoverKeepsRevision,
    /// Revisions count the writes of one record, and begin anew with the next record of the key.
    RevisionsPerRecord,
    /// A write names another revision than it has written.
    NamesAnotherRevision,

    // Answering.
    /// Occupied gives the record that was there first.
    OccupiedIsStale,
    /// Lost gives the record that was there first.
    LostIsStale,
    /// Lost says vacant, whatever is there.
    LostSaysVacant,
    /// Lost gives a record where there is none.
    LostInvents,
    /// Lost gives an expired record.
    LostShowsExpired,
    /// Find gives an expired record.
    FindShowsExpired,
    /// Occupied gives a record without its answer.
    OccupiedLeavesAnswerOut,
    /// Occupied and Lost give no times.
    LosersGetNoTimes,
    /// Each handle remembers what it has seen.
    CachesPerHandle,

    // Expiring.
    /// Nothing ever expires.
    NeverExpires,
    /// Records are gone after half of their retention.
    ExpiresEarly,
    /// A claim is gone with its lease.
    ExpiresWithLease,
    /// A record is gone with its retention, whether its lease is alive or not.
    ExpiresUnderLease,
    /// A renewal leaves the moment at which the record goes.
    RenewalLeavesExpiry,

    // Showing times.
    /// No answer has times.
    ShowsNoTimes,
    /// The age is always zero.
    AgeStandsStill,
    /// The lease that is left is always the lease that was given.
    LeaseStandsStill,
    /// Times are whole seconds.
    WholeSeconds,
    /// Record and times are read one after the other.
    TwoMoments,
    /// Times are computed with the application's clock.
    ApplicationClock,

    // Writing times.
    /// A settled record keeps the lease of its claim.
    SettlementKeepsLease,
    /// The age of a settled record counts from the settlement.
    SettlementResetsAge,
    /// The age of a record that is settled again counts from the second settlement.
    SecondSettlementResetsAge,
    /// The retention of a settled record counts from the settlement.
    SettlementResetsRetention,
    /// A settled record keeps the retention of its claim.
    SettlementKeepsRetention,
    /// A settled record has no retention, and stays.
    SettlementDropsRetention,
    /// A late settlement is over when it is written.
    SettlementHasNoFloor,
    /// A settled record that is inserted is kept for half of its retention.
    InsertedSettlementIsShort,
    /// The age of a takeover counts from the former claim.
    TakeoverKeepsAge,
    /// A takeover has what is left of the former lease.
    TakeoverKeepsLease,
    /// A takeover has what is left of the former retention.
    TakeoverKeepsRetention,
    /// A renewal leaves the lease.
    RenewalKeepsLease,
    /// A renewal never makes a lease shorter.
    RenewalTakesTheLongerLease,
    /// A renewal adds to what is left of the lease.
    RenewalAddsToLease,
    /// The age of a renewed claim counts from the renewal.
    RenewalResetsAge,
    /// A renewal counts the epoch up.
    RenewalCountsUp,
    /// A renewal always extends the retention.
    RenewalAlwaysExtends,
    /// A renewal never extends the retention.
    RenewalNeverExtends,
    /// A renewal cuts a retention that is longer than its own.
    RenewalShortens,

    // Bytes.
    /// A repeated header is kept once.
    DropsRepeatedHeaders,
    /// Repeated headers are joined with a comma.
    JoinsRepeatedHeaders,
    /// Headers are sorted.
    SortsHeaders,
    /// Header values are lower case.
    LowercasesHeaders,
    /// Header values lose the blanks at their ends.
    TrimsHeaders,
    /// Header values are text, with a replacement for all that is none.
    LossyHeaders,
    /// At most 64 headers are kept.
    CapsHeaders,
    /// Trailers are dropped.
    DropsTrailers,
    /// Trailers become headers.
    MovesTrailers,
    /// Bodies are cut at 64 KiB.
    TruncatesBodies,
    /// Bodies are text, with a replacement for all that is none.
    LossyBodies,
    /// Bodies end at the first NUL.
    BodiesStopAtNul,
    /// Bodies lose the blanks at their ends.
    TrimsBodies,
    /// JSON is written anew, without blanks.
    ReformatsJson,
    /// Statuses above 599 become 500.
    ClampsStatus,
    /// Statuses are one byte.
    NarrowsStatus,
    /// An empty answer is an answer that was not kept.
    EmptyIsNotKept,
    /// An answer that was not kept is an empty one.
    NotKeptIsEmpty,
    /// A value becomes a response.
    ValueBecomesResponse,
    /// Whether a failure had no effect is not kept.
    ForgetsNoEffect,
    /// A failure is kept as a release.
    FailedIsReleased,
    /// The epoch is not kept.
    ForgetsEpoch,
    /// Numbers go through floating point.
    RoundsNumbers,
    /// Numbers end where signed ones do.
    ClampsNumbers,
    /// The last bytes of fingerprints are not kept.
    CutsFingerprints,
    /// Tokens are kept as text, with a replacement for all that is none.
    KeepsTokensAsText,

    // Scope.
    /// The principal is left out.
    ForgetsPrincipal,
    /// The route is left out.
    ForgetsRoute,
    /// The key is left out.
    ForgetsKey,
    /// Principal, route and key are joined with a colon.
    JoinsParts,
    /// Principal, route and key are joined with nothing between them.
    ConcatenatesParts,
    /// The shared principal is kept as a name.
    NamesTheSharedPrincipal,
    /// Names are compared without regard to case.
    FoldsNames,
    /// Names lose the blanks at their ends.
    TrimsNames,
    /// Names are cut at 64 bytes.
    CutsNames,
    /// Names are normalised.
    NormalisesNames,
    /// Punctuation in names is dropped.
    StripsPunctuation,

    // Unreadable records.
    /// A corrupt record is none.
    CorruptIsVacant,
    /// A corrupt record is an empty one.
    CorruptIsDefault,
    /// A corrupt record is an error.
    CorruptIsAnError,
    /// An insert writes over a corrupt record.
    CorruptIsOverwritten,
    /// Any token owns a corrupt record.
    CorruptIsAnyones,
    /// A sweep takes corrupt records.
    CorruptIsSwept,
    /// A corrupt record stays for ever.
    CorruptNeverExpires,
    /// A record of an unknown version is corrupt.
    UnknownVersionIsCorrupt,
    /// A record of an unknown version is none.
    UnknownVersionIsVacant,

    // Servers.
    /// A call waits for a server that is not there.
    HangsWithoutServer,
    /// A call waits for a server that does not answer.
    HangsOnSilence,
    /// A missing server is an error of another kind.
    OutageIsOther,
    /// Without its server, the store falls back to the memory of the process.
    FallsBackToMemory,

    // Sweeping and counting.
    /// A sweep takes everything.
    SweepTakesAll,
    /// A sweep takes claims whose lease is over.
    SweepTakesAbandoned,
    /// A sweep takes what is past its retention, also under a live lease.
    SweepIgnoresLease,
    /// A sweep looks for keys, waits, and removes by key.
    SweepRemovesByKey,
    /// A sweep takes more than it was told to.
    SweepIgnoresLimit,
    /// A sweep takes more than it says.
    SweepMiscounts,
    /// A sweep takes nothing.
    SweepTakesNothing,
    /// A sweep never says that there is more.
    SweepForgetsMore,
    /// Expired records are not counted.
    MiscountsRecords,
    /// No record is ever said to be expired.
    CountsNoExpired,
}
