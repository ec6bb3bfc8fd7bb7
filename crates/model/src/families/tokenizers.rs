//! Tokenizer classes of transformers 5 as data: the rules for building a tokenizer from a raw
//! vocabulary.

/// Rules for building a tokenizer from a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// SentencePiece BPE with a space before the text, as Llama's.
    Prefixed,
    /// SentencePiece BPE without one, as Gemma's.
    Plain,
    /// SentencePiece unigram with sentinel tokens after the pieces, as T5's.
    T5,
    /// SentencePiece unigram with the ids of fairseq, as XLM-RoBERTa's.
    XlmRoberta,
    /// SentencePiece unigram of lower-cased text, as ALBERT's.
    Albert,
    /// Byte-level BPE, as GPT-2's.
    Bytes,
    /// Byte-level BPE with the special tokens of an encoder, as RoBERTa's.
    Roberta,
    /// Byte-level BPE of NFC text with another pre-tokenizer, as Qwen2's.
    BytesOfWords,
    /// Byte-level BPE of NFC text, as GPT-NeoX's.
    NeoX,
    /// WordPiece, as BERT's.
    Bert,
    /// WordPiece with the special tokens of RoBERTa, as MPNet's.
    Mpnet,
}

impl Class {
    /// The class of a `tokenizer_class`, given without "Fast", or else that of the model type;
    /// `None` if neither is known.
    ///
    /// # Errors
    /// The name of an unknown class.
    pub(crate) fn of<'a>(
        name: Option<&'a str>,
        model_type: Option<&str>,
    ) -> Result<Option<Self>, &'a str> {
        let by_type = model_type.and_then(Self::of_model);
        // Checkpoints of these models name a wrong class, which transformers corrects.
        if by_type == Some(Self::BytesOfWords) {
            return Ok(by_type);
        }
        let Some(name) = name else {
            return Ok(by_type);
        };
        if matches!(name, "PreTrainedTokenizer" | "TokenizersBackend") {
            return Ok(by_type);
        }
        Self::named(name).ok_or(name).map(Some)
    }

    /// The class of this name.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "LlamaTokenizer" => Self::Prefixed,
            "GemmaTokenizer" => Self::Plain,
            "T5Tokenizer" | "MT5Tokenizer" => Self::T5,
            "XLMRobertaTokenizer" => Self::XlmRoberta,
            "AlbertTokenizer" => Self::Albert,
            "GPT2Tokenizer" | "CodeGenTokenizer" => Self::Bytes,
            "RobertaTokenizer" | "BartTokenizer" | "LongformerTokenizer" => Self::Roberta,
            "Qwen2Tokenizer" => Self::BytesOfWords,
            "GPTNeoXTokenizer" => Self::NeoX,
            "BertTokenizer"
            | "DistilBertTokenizer"
            | "ElectraTokenizer"
            | "ConvBertTokenizer"
            | "MobileBertTokenizer"
            | "SqueezeBertTokenizer"
            | "LxmertTokenizer"
            | "LayoutLMTokenizer" => Self::Bert,
            "MPNetTokenizer" => Self::Mpnet,
            _ => return None,
        })
    }

    /// The class whose special tokens apply in addition to a `tokenizer.json`, as in transformers;
    /// `None` if the files are complete. `bytes` says whether the vocabulary is byte-level.
    pub(crate) fn beside_json(
        name: Option<&str>,
        model_type: Option<&str>,
        bytes: bool,
    ) -> Option<Self> {
        // Checkpoints of these models name a wrong class.
        const MISNAMED: &str = "qwen2";
        let by_type = model_type.and_then(Self::of_model);
        match (name, model_type) {
            (Some(_), Some(MISNAMED)) | (None, _) => by_type,
            // With the generic class the files are complete.
            (Some("PreTrainedTokenizer" | "TokenizersBackend" | "PythonBackend"), _) => None,
            // transformers has no class for these models, and ignores the named one.
            (Some(_), Some("mistral" | "phi3" | "stablelm" | "olmo2")) => None,
            // A byte-level vocabulary under the name of a class without one: Llama 3.
            (Some("LlamaTokenizer"), _) if bytes => None,
            (Some(name), _) => Self::named(name),
        }
    }

    /// The class of a `model_type` of `config.json`.
    fn of_model(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "gemma" | "gemma2" | "gemma3" | "gemma3_text" | "gemma3n" | "gemma3n_text"
            | "recurrent_gemma" | "t5gemma" => Self::Plain,
            "t5" | "mt5" | "switch_transformers" => Self::T5,
            "xlm-roberta" | "xmod" => Self::XlmRoberta,
            "albert" => Self::Albert,
            "gpt2" | "gpt_neo" | "gptj" | "opt" | "phi" | "codegen" | "starcoder2" => Self::Bytes,
            "roberta" | "roberta-prelayernorm" | "bart" | "longformer" | "data2vec-text" => {
                Self::Roberta
            }
            "gpt_neox" | "olmo" => Self::NeoX,
            "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe" | "qwen3_next" => Self::BytesOfWords,
            "bert" | "distilbert" | "electra" | "convbert" | "squeezebert" | "nomic_bert"
            | "megatron-bert" | "nezha" | "ernie" => Self::Bert,
            "mpnet" => Self::Mpnet,
            _ => return None,
        })
    }

    /// Default tokens of the roles bos, eos, unk, sep, pad, cls and mask.
    pub(crate) fn defaults(self) -> [Option<&'static str>; 7] {
        let end = Some("<|endoftext|>");
        match self {
            Self::Prefixed => [Some("<s>"), Some("</s>"), Some("<unk>"), None, None, None, None],
            Self::Plain => [
                Some("<bos>"),
                Some("<eos>"),
                Some("<unk>"),
                None,
                Some("<pad>"),
                None,
                Some("<mask>"),
            ],
            Self::T5 => [None, Some("</s>"), Some("<unk>"), None, Some("<pad>"), None, None],
            Self::XlmRoberta | Self::Roberta => {
                ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"].map(Some)
            }
            Self::Albert => {
                ["[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"].map(Some)
            }
            Self::Bytes => [end, end, end, None, None, None, None],
            Self::NeoX => [end, end, end, None, Some("<|padding|>"), None, None],
            Self::BytesOfWords => [None, end, end, None, end, None, None],
            Self::Bert => {
                let [unk, sep, pad] = ["[UNK]", "[SEP]", "[PAD]"].map(Some);
                [None, None, unk, sep, pad, Some("[CLS]"), Some("[MASK]")]
            }
            Self::Mpnet => ["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"].map(Some),
        }
    }
}
