//! The library inside a program of one's own: load a model, ask it several questions at once, print the answers.
//!
//! `cargo run --release -p dlmrs --features bundled --example embed`
#![allow(clippy::print_stdout)]

use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Llm, LoadOptions, Overrides, Request, Result, SamplingParams};

fn main() -> Result<()> {
    // A folder with a checkpoint does as well.
    let llm = Llm::load("tiny-sdar", &LoadOptions::default(), &Overrides::default())?;
    let tokenizer = llm.require_tokenizer()?;
    let mut requests = Vec::new();
    for question in ["Mia buys 9 pens for 5 dollars each. How much does Mia spend?", "Tom has 7 shells and finds 8 more. How many has Tom?"]
    {
        let prompt = tokenizer.encode_chat(&[Message::new("user", question)], &ChatOptions::default(), Specials::AsText)?;
        requests.push(Request { prompt, params: SamplingParams { max_tokens: 64, ..SamplingParams::default() }, decoding: None });
    }
    // The closure is told of everything that happens and may stop it by returning false.
    for output in llm.generate(requests, |_, _| true)? {
        println!("{}\n({:.1} tokens a pass)\n", output.text, output.stats.tokens_per_pass());
    }
    Ok(())
}
