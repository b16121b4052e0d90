//! Several threads ask one model at once; what they ask shares each forward.
//!
//!     cargo run --release -p dlmrs --features bundled --example threads
#![allow(clippy::print_stdout)]

use dlmrs::engine::Service;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Event, Llm, LoadOptions, Overrides, Request, SamplingParams};

fn main() -> dlmrs::Result<()> {
    let llm = Llm::load("tiny-sdar", &LoadOptions::default(), &Overrides::default())?;
    let service = Service::start(llm.clone())?;
    let ask = |name: &str, count: u32| -> dlmrs::Result<String> {
        let question = Message::new("user", format!("{name} buys {count} pens for 5 dollars each. How much does {name} spend?"));
        let prompt = llm.require_tokenizer()?.encode_chat(&[question], &ChatOptions::default(), Specials::AsText)?;
        let params = SamplingParams { max_tokens: 64, ..SamplingParams::default() };
        let mut answer = String::new();
        for event in service.submit(Request { prompt, params, decoding: None })? {
            match event {
                Event::Committed { text, .. } => answer += &text,
                Event::Failed { error, .. } => return Err(error),
                Event::Revealed { .. } | Event::Finished { .. } => {}
            }
        }
        Ok(answer)
    };
    std::thread::scope(|scope| {
        let threads = [("Mia", 9), ("Hugo", 7), ("Olga", 4)].map(|(name, count)| scope.spawn(move || (name, ask(name, count))));
        for thread in threads {
            let Ok((name, answer)) = thread.join() else { continue };
            println!("{name}: {}", answer?);
        }
        Ok(())
    })
}
