namespace lockstep {

/// What is told.
/// Use: `Told{}`.
struct Told {
  /// A member that is forgotten.
  void untold();
};

/// What is forgotten.
struct Forgotten {};

}  // namespace lockstep
