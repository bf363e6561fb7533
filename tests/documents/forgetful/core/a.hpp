namespace lockstep {

/// What is told.
/// Use: `Told{}`.
struct Told {};

/// What is forgotten.
struct Forgotten {};

}  // namespace lockstep
