// A line that follows a noisy one.

/**
 * The running mean of a column in which older values count less, and the first ones as much as they are.
 * @param {(number | null)[]} column
 * @param {number} weight of what was before, from 0 (the column itself) to less than 1
 * @returns {(number | null)[]}
 */
export function smoothed(column, weight) {
  if (!weight) return column;
  let sum = 0;
  let share = 0;
  return column.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}
