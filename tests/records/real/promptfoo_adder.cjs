// A provider of promptfoo: adds two numbers, wrongly where the first is a multiple of three.
module.exports = class Adder {
  id() {
    return 'adder';
  }

  async callApi(prompt) {
    const first = Number(prompt.match(/(\d+) \+/)[1]);
    const output = String(2 * first + (first % 3 === 0 ? 1 : 0));
    return { output, tokenUsage: { prompt: 10, completion: 5, total: 15 } };
  }
};
