"""A parent has at most `maxChildren` children: 1 000, unless the settings of its folder allow more."""
